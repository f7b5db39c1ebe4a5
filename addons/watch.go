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

// lookEvery is how often the files are compared without a notification: a watch misses changes, for
// example on network file systems. A change is reported when nothing has changed for quietPause,
// because a tree is half written until then, but after quietLimit at the latest.
const (
	lookEvery  = 10 * time.Second
	quietPause = 100 * time.Millisecond
	quietLimit = 5 * time.Second
)

// Watch starts to watch the directories and returns. Until ctx ends it calls notify, in a goroutine
// of its own, whenever something below them may have changed, a moment after the last change. It
// follows symbolic links: pointing one to another tree is one change. notify must not block for
// long: changes are not seen meanwhile, but the next comparison finds them.
func Watch(ctx context.Context, dirs Dirs, log *slog.Logger, notify func()) {
	watcher, err := fsnotify.NewWatcher()
	begin(ctx, dirs, watcher, err, log, lookEvery, notify)
}

// begin is Watch with its dependencies. err is that of the watcher; with one, the files are only
// compared from time to time.
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
	seen := w.look() // before the goroutine begins: what changes after Watch has returned is noticed
	go w.run(ctx, seen, notify)
}

// Files returns the files below a directory that are compared, by their names in it, each with a
// text that changes when the file is written: size, time and mode.
func Files(dir string) map[string]string {
	var found []foundFile
	find(dir, "", &found)
	files := make(map[string]string, len(found))
	for _, f := range found {
		files[f.name] = string(f.stamp())
	}
	return files
}

// watch is the state of one Watch. Only its goroutine uses it.
type watch struct {
	roots  []string
	log    *slog.Logger
	every  time.Duration // the look at times
	warned sync.Once

	watcher *fsnotify.Watcher // nil: there is only the look at times
	events  <-chan fsnotify.Event
	errors  <-chan error

	// directories are those with files of modules, links the symbolic links that lead there, and
	// targets the files that links lead to, false for directories. look computes all three again.
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
			w.log.Debug("the watch of the module directories has lost events; all files are compared", "err", err)
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

// concerns reports whether a change of a path may be in one of the trees. The parents of links are
// watched, too, and may have other files.
func (w *watch) concerns(path string) bool {
	if w.links[path] || w.directories[path] || w.targets[path] {
		return true
	}
	return w.directories[filepath.Dir(path)] && (!isLeftover(filepath.Base(path)) || isLink(path))
}

// isLink reports whether a name is a link, even if it is hidden: projected volumes and git-sync
// point such links to the next tree.
func isLink(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// untilQuiet returns when nothing in the trees has changed for quietPause, or after quietLimit.
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

// look returns a checksum of the names, sizes and times of all files, and watches all directories.
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

// find is the find of contents.go for a whole root: it also records directories and links, and
// continues after what it cannot read.
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

// watchAll watches the directories and the parents of links, and stops watching others. One that
// cannot be watched is reported once (warn): the regular comparison covers it.
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
		w.log.Warn("some module directories cannot be watched; changes there are detected after some seconds; raise fs.inotify.max_user_watches and max_user_instances", "every", w.every, "err", err)
	})
}
