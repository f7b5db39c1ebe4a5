package testkit

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/tools/txtar"
)

// disk is the directory that a script is played in, and what the archive has for it. Files
// are written once, and after that only what the steps of a play have changed: writing
// them, and asking what they say, would take more time than the play.
type disk struct {
	dir      string
	original map[string]*diskFile // all files of the archive, by name
	more     map[string][]string  // templates that steps add to charts, by release
	parts    parts                // of charts

	mu      sync.Mutex           // hooks read now, in their runs
	now     map[string]*diskFile // what is there, by name
	changed map[string]bool      // by steps: two parts of a path, such as modules/010-dns
}

// diskFile is the content of a file, which is the same however often it is written.
type diskFile struct {
	data []byte
	// parse reads a scripted hook; nil for a file that is none.
	parse func() (*script, error)
}

// newDiskFile parses a scripted hook when it is first used: most plays use few of them.
func newDiskFile(name string, data []byte) *diskFile {
	return &diskFile{data, sync.OnceValues(func() (*script, error) { return parseScript(name, data) })}
}

// diskNotices are the functions that are notified of changes of the disk, as by a watch of it.
// Those of operators that have ended stay, and do nothing.
type diskNotices []func()

// subscribe is the Disk of shared.World.
func (n *diskNotices) subscribe(ctx context.Context, notify func()) {
	*n = append(*n, func() {
		if ctx.Err() == nil {
			notify()
		}
	})
}

func (n *diskNotices) changed() {
	for _, notify := range *n {
		notify()
	}
}

// newDisk takes the files of an archive; reset writes them.
func newDisk(dir string, archive *txtar.Archive) *disk {
	d := &disk{dir: dir, original: map[string]*diskFile{}, more: map[string][]string{}, now: map[string]*diskFile{}, changed: map[string]bool{}}
	for _, f := range archive.Files {
		d.original[f.Name] = newDiskFile(f.Name, f.Data)
		d.changed[unitOf(f.Name)] = true
	}
	return d
}

// unitOf is what a file is written again with: its module, or itself.
func unitOf(name string) string {
	parts := strings.SplitN(filepath.ToSlash(name), "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// reset makes the directory what the archive says, before a play. At first that is everything,
// later the units that steps of the last play have changed.
func (d *disk) reset(needs parts) error {
	for name := range d.original {
		if len(d.more) > 0 || !maps.Equal(d.parts, needs) {
			d.changed[unitOf(name)] = true
		}
	}
	d.parts = needs
	clear(d.more)
	for _, root := range []string{"modules", "global-hooks"} {
		if err := os.MkdirAll(filepath.Join(d.dir, root), 0o755); err != nil {
			return err
		}
	}
	for unit := range d.changed {
		if err := d.remove(unit); err != nil {
			return err
		}
		if err := d.restore(unit); err != nil {
			return err
		}
	}
	clear(d.changed)
	return nil
}

// remove deletes a file or directory.
func (d *disk) remove(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed[unitOf(path)] = true
	maps.DeleteFunc(d.now, func(name string, _ *diskFile) bool { return isBelow(name, path) })
	return os.RemoveAll(filepath.Join(d.dir, filepath.FromSlash(path)))
}

// rename gives a file or directory another name.
func (d *disk) rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed[unitOf(from)], d.changed[unitOf(to)] = true, true
	moved := map[string]*diskFile{}
	for name, f := range d.now {
		if isBelow(name, from) {
			moved[to+strings.TrimPrefix(name, from)] = f
			delete(d.now, name)
		}
	}
	maps.Copy(d.now, moved)
	return os.Rename(filepath.Join(d.dir, filepath.FromSlash(from)), filepath.Join(d.dir, filepath.FromSlash(to)))
}

// restore writes the files of the archive at and below a path. They are older than the virtual
// time, in which the year 2000 has just begun: the operator reads files again and again that have
// just changed, or that are of the future.
func (d *disk) restore(path string) error {
	for name, f := range d.original {
		onDisk := strings.HasPrefix(name, "modules/") || strings.HasPrefix(name, "global-hooks/")
		if !onDisk || !isBelow(name, path) {
			continue
		}
		old := time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)
		if err := errors.Join(d.write(name, f), os.Chtimes(filepath.Join(d.dir, filepath.FromSlash(name)), old, old)); err != nil {
			return err
		}
	}
	return nil
}

func isBelow(name, path string) bool { return name == path || strings.HasPrefix(name, path+"/") }

// withoutBit begins a hook or an enabled script that is not executable by mistake.
const withoutBit = "not executable"

// write puts a file there; hooks and enabled scripts become executable.
func (d *disk) write(name string, f *diskFile) error {
	mode := os.FileMode(0o644)
	openapi := strings.Contains(name, "/openapi/")
	if !openapi && (strings.Contains(name, "hooks/") || filepath.Base(name) == "enabled") && !bytes.HasPrefix(f.data, []byte(withoutBit)) {
		mode = 0o755
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed[unitOf(name)] = true
	d.now[name] = f
	if filepath.Base(name) != "Chart.yaml" {
		return d.put(name, f.data, mode)
	}
	if err := d.chart(name); err != nil {
		return err
	}
	return d.put(name, completeChart(f.data), mode)
}

// put writes a file.
func (d *disk) put(name string, data []byte, mode os.FileMode) error {
	path := filepath.Join(d.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, mode)
}

// script reads a scripted hook by its path; it is nil for a file that is none. Without a
// disk, files are read each time.
func (d *disk) script(path string) (*script, error) {
	if d != nil {
		if name, err := filepath.Rel(d.dir, path); err == nil {
			d.mu.Lock()
			f := d.now[filepath.ToSlash(name)]
			d.mu.Unlock()
			if f != nil {
				return f.parse()
			}
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseScript(path, data)
}

// hasPrograms reports whether there are hooks that are real programs.
func (d *disk) hasPrograms() bool {
	for _, f := range d.original {
		if bytes.HasPrefix(f.data, []byte("#!/")) {
			return true
		}
	}
	return false
}
