package addons

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// P8: a link to a file elsewhere is watched where the file lies, and of what else lies there only the file counts.
func TestFilesBehindLinksAreWatched(t *testing.T) {
	root, elsewhere := t.TempDir(), t.TempDir()
	target := filepath.Join(elsewhere, "values.yaml")
	err := os.WriteFile(target, nil, 0o600)
	if err == nil {
		err = os.Symlink(target, filepath.Join(root, "values.yaml"))
	}
	watcher, errWatcher := fsnotify.NewWatcher()
	if err != nil || errWatcher != nil {
		t.Fatal(err, errWatcher)
	}
	defer watcher.Close()
	w := &watch{roots: []string{root}, watcher: watcher}
	w.look()
	if list := watcher.WatchList(); !slices.Contains(list, elsewhere) || !w.concerns(target) {
		t.Errorf("watched are %q", list)
	}
	if w.concerns(filepath.Join(elsewhere, "other.yaml")) {
		t.Error("a file next to it counts")
	}
}

// P8: what changes below the directories is noticed: files, new directories and what comes in them, and links that are
// pointed at another tree, whether the root lies behind one, as with git-sync, or its files do, as in projected volumes.
// It is noticed by the watch, without the look at times, and by that look alone.
func TestWatch(t *testing.T) {
	t.Parallel()
	for name, watched := range map[string]bool{"notified": true, "looked at": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			watches(t, watched)
		})
	}
}

// watches checks what is noticed by the watch, or else by the look at times. There is only one of both.
func watches(t *testing.T, watched bool) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"one/modules/010-a/values.yaml", "two/modules/010-a/values.yaml", "volume/..1/values.yaml", "volume/..2/values.yaml", "global/h.sh"} {
		write(name, "a: {}")
	}
	at := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	link := func(target, path string) {
		t.Helper()
		if err := os.Symlink(target, path+"-new"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+"-new", path); err != nil {
			t.Fatal(err)
		}
	}
	link("one", at("current"))
	link("..1", at("volume", "..data"))
	link("..data/values.yaml", at("volume", "values.yaml"))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	noticed := make(chan struct{}, 100)
	log := slog.New(slog.DiscardHandler)
	watcher, err := fsnotify.NewWatcher()
	every := 24 * time.Hour
	if err != nil {
		t.Fatal(err)
	}
	if !watched {
		_ = watcher.Close()
		err, every = errors.New("there is no inotify"), time.Millisecond
	}
	dirs := Dirs{Modules: []string{at("current", "modules"), at("volume")}, Global: at("global")}
	begin(ctx, dirs, watcher, err, log, every, func() { noticed <- struct{}{} })
	notices := func(what string) {
		t.Helper()
		select {
		case <-noticed:
		case <-time.After(time.Minute):
			t.Fatalf("%s is not noticed", what)
		}
	}
	write("one/modules/020-b/templates/x.yaml", "a")
	notices("a new directory")
	write("global/h.sh", "#!/bin/sh")
	notices("a global hook")
	link("..2", at("volume", "..data"))
	notices("a link of a projected volume")
	link("two", at("current"))
	notices("a link above the root")
	write("two/modules/010-a/hooks/h.sh", "x")
	notices("a file behind the new link")
}
