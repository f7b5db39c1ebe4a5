package addons

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// lookEvery is how often the files are compared. Looks take at most one part in so many of the time, however many files
// there are: Seldom for an operator, which is idle most of the time, and Often where a person waits. A change is seen
// after lookLatest, unless that is more than Often. A change is reported when a look finds nothing newer, because a
// tree is half written until then, but after quietLimit at the latest.
const (
	lookEvery  = 100 * time.Millisecond
	lookLatest = 3 * time.Second
	Seldom     = 1000
	Often      = 50
	quietLimit = 5 * time.Second
)

// Watch looks at the files below the directories until ctx ends, in a goroutine of its own, and calls notify when they
// have changed: in their names, sizes, times or modes, or because a root or a module is a link that leads elsewhere.
// It does not ask the kernel for notifications, which network file systems and links to other trees do not have. share
// is Seldom or Often.
func Watch(ctx context.Context, dirs Dirs, share int, notify func()) {
	seen := lookAt(dirs) // before the goroutine begins: what changes after Watch has returned is noticed
	go func() {
		pause, last, since := lookEvery, seen, time.Time{}
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			began := time.Now()
			now := lookAt(dirs)
			took := time.Since(began)
			pause = max(lookEvery, min(time.Duration(share)*took, lookLatest), Often*took)
			switch quiet := now == last; {
			case now == seen:
				since = time.Time{}
			case since.IsZero():
				since, pause = began, max(lookEvery, Often*took)
			case quiet || began.Sub(since) > quietLimit:
				seen, since = now, time.Time{}
				notify()
			}
			last = now
		}
	}()
}

// lookAt returns a checksum of what can be seen of all files without reading them.
func lookAt(dirs Dirs) (seen sum) {
	all := sha256.New()
	for _, root := range append(slices.Clone(dirs.Modules), dirs.Global) {
		entries, _ := os.ReadDir(root)
		for _, entry := range entries {
			if isLeftover(entry.Name()) {
				continue
			}
			// Trees that are made to be reproducible have the same times and sizes.
			target, _ := filepath.EvalSymlinks(filepath.Join(root, entry.Name()))
			fmt.Fprintf(all, "%s\x00%s\x00", entry.Name(), target)
		}
		var files []foundFile
		find(root, "", &files)
		stamp := stampOf(files)
		all.Write(stamp[:])
	}
	all.Sum(seen[:0])
	return seen
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
