package addons

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

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
