package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

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
