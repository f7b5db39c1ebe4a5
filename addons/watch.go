package addons

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// How often the disk is looked at when nothing is notified: what a watch misses, for example on network file systems, shows
// there. A tree is half-written until nothing has changed for the pause, up to the limit.
const (
	lookEvery  = 10 * time.Second
	quietPause = 100 * time.Millisecond
	quietLimit = 5 * time.Second
)

// Watch begins to watch, and calls notify whenever something below the directories may have changed, a moment after the last change, until ctx
// ends. It follows symbolic links: one that is pointed at another tree is one change.
func Watch(ctx context.Context, dirs Dirs, log *slog.Logger, notify func()) {
	watcher, err := fsnotify.NewWatcher()
	begin(ctx, dirs, watcher, err, log, lookEvery, notify)
}

// begin watches with a watcher, unless there is an error, and looks from time to time.
func begin(ctx context.Context, dirs Dirs, watcher *fsnotify.Watcher, err error, log *slog.Logger, every time.Duration, notify func()) {
	w := &watch{log: log, every: every}
	for _, root := range append(slices.Clone(dirs.Modules), dirs.Global) {
		if abs, err := filepath.Abs(root); err == nil {
			w.roots = append(w.roots, abs)
		}
	}
	if err != nil {
		w.warn(err)
	} else {
		w.watcher, w.events, w.errors = watcher, watcher.Events, watcher.Errors
	}
	seen := w.look() // what changes from now on is noticed
	go w.run(ctx, seen, notify)
}

// Files are the files below a directory that are compared, by their names from there on, each with what shows that it was
// written: size, time and mode.
func Files(dir string) map[string]string {
	var found []foundFile
	find(dir, "", &found)
	files := make(map[string]string, len(found))
	for _, f := range found {
		files[f.name] = string(f.stamp())
	}
	return files
}

type watch struct {
	roots  []string
	log    *slog.Logger
	every  time.Duration // the look at times
	warned sync.Once

	watcher *fsnotify.Watcher // nil: there is only the look at times
	events  <-chan fsnotify.Event
	errors  <-chan error

	// directories are those with files of modules, links the symbolic links that lead there, and targets the files that links lead to.
	directories, links, targets map[string]bool
}

func (w *watch) run(ctx context.Context, seen sum, notify func()) {
	if w.watcher != nil {
		defer w.watcher.Close()
	}
	slow := time.NewTicker(w.every)
	defer slow.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-slow.C:
		case err := <-w.errors: // too many events at once, or a file system that has gone
			w.log.Debug("the watch of modules has lost events; everything is compared", "err", err)
			w.untilQuiet(ctx)
		case event := <-w.events:
			if !w.concerns(event.Name) {
				continue
			}
			w.untilQuiet(ctx)
		}
		if now := w.look(); now != seen {
			seen = now
			notify()
		}
	}
}

// concerns reports whether a change of a path may be one of the trees.
func (w *watch) concerns(path string) bool {
	if w.links[path] || w.directories[path] || w.targets[path] {
		return true
	}
	return w.directories[filepath.Dir(path)] && (!isLeftover(filepath.Base(path)) || isLink(path))
}

// isLink reports whether a hidden name is a link, as those are that projected volumes and git-sync point at another tree.
func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// untilQuiet waits until nothing of the trees has changed for a moment.
func (w *watch) untilQuiet(ctx context.Context) {
	limit, pause := time.NewTimer(quietLimit), time.NewTimer(quietPause)
	defer limit.Stop()
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-limit.C:
			return
		case <-pause.C:
			return
		case event := <-w.events:
			if w.concerns(event.Name) { // and not a neighbour of the directories
				pause.Reset(quietPause)
			}
		}
	}
}

// look sums up names, sizes and times of all files, and watches all directories.
func (w *watch) look() (stamp sum) {
	var files []foundFile
	w.directories, w.links, w.targets = map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, root := range w.roots {
		w.links[root] = true // it may be replaced as a whole
		for path := root; path != filepath.Dir(path); path = filepath.Dir(path) {
			if isLink(path) {
				w.links[path] = true
			}
		}
		w.find(root, 0, &files)
	}
	w.watchAll()
	return stampOf(files)
}

// find is that of contents.go for a whole root, with its directories; it goes on past what cannot be read.
func (w *watch) find(path string, depth int, files *[]foundFile) {
	target, err := filepath.EvalSymlinks(path) // each time: another one is other directories to watch
	if err != nil || depth > maxDepth || len(*files) > maxFiles*len(w.roots) {
		return
	}
	info, err := os.Stat(target)
	if err != nil {
		return
	}
	if isLink(path) {
		w.links[path] = true
		w.targets[target] = !info.IsDir()
	}
	*files = append(*files, foundFile{path + "\x00" + target, info})
	if !info.IsDir() {
		return
	}
	w.directories[target] = true
	entries, err := os.ReadDir(target)
	if err != nil {
		return
	}
	for _, entry := range entries {
		if !isLeftover(entry.Name()) {
			w.find(filepath.Join(path, entry.Name()), depth+1, files)
		}
	}
}

// watchAll watches the directories, and where the links lie, and nothing else.
func (w *watch) watchAll() {
	if w.watcher == nil {
		return
	}
	wanted := maps.Clone(w.directories)
	for link := range w.links {
		wanted[filepath.Dir(link)] = true
	}
	for target, isFile := range w.targets {
		wanted[filepath.Dir(target)] = wanted[filepath.Dir(target)] || isFile
	}
	known := w.watcher.WatchList()
	for _, path := range known {
		if !wanted[path] {
			_ = w.watcher.Remove(path) // it may be gone
		}
	}
	for path := range wanted {
		if slices.Contains(known, path) {
			continue
		}
		if err := w.watcher.Add(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.warn(err)
		}
	}
}

func (w *watch) warn(err error) {
	w.warned.Do(func() {
		w.log.Warn("not all directories of modules can be watched; changes there are noticed after some seconds. Raise fs.inotify.max_user_watches and max_user_instances", "every", w.every, "err", err)
	})
}
