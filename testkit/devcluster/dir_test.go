package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestDirectoryIsForOneAtATime(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "there")
	unlock, err := lockDir(dir)
	must(t, err)
	_, err = lockDir(dir)
	if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
		t.Errorf("second lock: %v; want a message with the directory and the process", err)
	}
	unlock()
	unlock, err = lockDir(dir)
	if err != nil {
		t.Fatalf("after unlock: %v", err)
	}
	unlock()
	checkMode(t, dir, dirMode)
	checkMode(t, filepath.Join(dir, "lock"), fileMode)
}

func TestDirectoryThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, fileMode))
	if _, err := lockDir(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file as directory: %v", err)
	}
}

func TestFileIsReplacedInOneStep(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	for _, text := range []string{"first", "second"} {
		must(t, writeFile(path, []byte(text)))
		if got := readFile(t, path); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
	checkMode(t, path, fileMode)
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	if err := writeFile(filepath.Join(t.TempDir(), "no", "where"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without its directory: %v", err)
	}
}

func TestRemovalSparesWhatIsNotOurs(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"kubeconfig", "thesis.txt"} {
		must(t, writeFile(filepath.Join(dir, name), nil))
	}
	removeDir(dir)
	if _, err := os.Stat(filepath.Join(dir, "kubeconfig")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("kubeconfig: %v; want it removed", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "thesis.txt")); err != nil {
		t.Errorf("removed what is not ours: %v", err)
	}
}

func checkMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	if got := info.Mode().Perm(); got != want {
		t.Errorf("%s has mode %v, want %v", path, got, want)
	}
}
