package addons

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"addon-operator/helm/charts"
)

type sum [sha256.Size]byte

// contents are the checksums of the files below a directory.
type contents struct {
	// stamp changes when a file appears, disappears, or changes its size, time or mode.
	stamp sum
	// settled: no file was written just before it was read. If one was, a second write in the same
	// tick of the file system's clock may leave the stamp as it is, so an equal stamp proves
	// nothing.
	settled bool
	// all is that of all files that count, and run that of the chart and of what values come from.
	all, run sum
	// content has the files that count, and whether they have content. See lost.
	content map[string]bool
}

// The limits of a directory. What is beyond them is not compared; of a file that cannot be read, or is
// larger than values may be, only size and time are.
const (
	maxDepth   = 32 // stops at symbolic links that point upwards
	maxFiles   = 100_000
	settleTime = time.Second // coarser than the times of any file system in use
)

// look reads the files below a directory, unless their stamp is the known one: then known is
// returned, which is the usual case, and costs no more than the names and times of the files.
func look(dir string, known contents) contents {
	var files []foundFile
	find(dir, "", &files)
	now := contents{stamp: stampOf(files), settled: true, content: map[string]bool{}}
	// Another tree behind the same link may have the same times and sizes: trees that are made to
	// be reproducible do.
	if target, err := filepath.EvalSymlinks(dir); err == nil {
		now.stamp = sha256.Sum256(append(now.stamp[:], target...))
	}
	for _, f := range files {
		if time.Since(f.info.ModTime()) < settleTime {
			now.settled = false
		}
	}
	if known.settled && known.stamp == now.stamp {
		return known
	}
	all, run := sha256.New(), sha256.New()
	for _, f := range files {
		if !counts(f.name) {
			continue
		}
		one, has := f.sum(dir)
		now.content[f.name] = has
		all.Write(one[:])
		if inRun(f.name) {
			run.Write(one[:])
		}
	}
	all.Sum(now.all[:0])
	run.Sum(now.run[:0])
	return now
}

// lost finds what had content before and has none now (charts.Lost). A file that is gone is one that
// was removed, unless something else has its name, or a link above it points to nothing.
func (c contents) lost(dir string, before contents) string {
	for _, name := range slices.Sorted(maps.Keys(before.content)) {
		if _, there := c.content[name]; before.content[name] && !there && inTheWay(dir, name) {
			return name
		}
	}
	return charts.Lost(before.content, c.content, func(below string) bool {
		for name := range c.content {
			if !strings.Contains("/"+name, "/templates/") {
				continue
			}
			text, err := readFile(filepath.Join(dir, filepath.FromSlash(name)))
			if err == nil && charts.Reads(text, below) {
				return true
			}
		}
		return false
	})
}

// inTheWay reports whether something else has the name of a file, or a link above it points to
// nothing.
func inTheWay(dir, name string) bool {
	for at := name; at != "."; at = path.Dir(at) {
		file := filepath.Join(dir, filepath.FromSlash(at))
		info, err := os.Lstat(file)
		if err != nil {
			continue
		}
		_, err = os.Stat(file)
		return at == name || info.Mode().Type() == fs.ModeSymlink && errors.Is(err, fs.ErrNotExist)
	}
	return false
}

// foundFile is a file with the metadata of its target: links are followed.
type foundFile struct {
	name string // with slashes, from the directory on
	info fs.FileInfo
}

// stamp is what can be seen without reading the file.
func (f foundFile) stamp() []byte {
	return fmt.Appendf(nil, "%d %d %o %s\x00", f.info.Size(), f.info.ModTime().UnixNano(), f.info.Mode(), f.name)
}

func stampOf(files []foundFile) (stamp sum) {
	all := sha256.New()
	for _, f := range files {
		all.Write(f.stamp())
	}
	all.Sum(stamp[:0])
	return stamp
}

// sum is the checksum of name, mode and content, or of the stamp of a file that cannot be read or
// is too large. has reports whether the file has content.
func (f foundFile) sum(dir string) (s sum, has bool) {
	text, err := readFile(filepath.Join(dir, filepath.FromSlash(f.name)))
	if err != nil {
		return sha256.Sum256(f.stamp()), f.info.Mode().IsRegular() && f.info.Size() > 0
	}
	head := fmt.Appendf(nil, "%s\x00%o\x00", f.name, f.info.Mode().Perm()&0o111) // x bits decide whether a file is a hook
	return sha256.Sum256(append(head, text...)), charts.HasContent(text)
}

// find lists the files below a directory in order, through symbolic links. Hidden files and the
// copies that editors make do not count.
func find(dir, below string, files *[]foundFile) {
	entries, err := os.ReadDir(filepath.Join(dir, filepath.FromSlash(below)))
	if err != nil || strings.Count(below, "/") > maxDepth {
		return
	}
	for _, entry := range entries {
		name := path.Join(below, entry.Name())
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name)))
		switch {
		case err != nil || isLeftover(entry.Name()) || len(*files) >= maxFiles: // err: a broken link, or just deleted
		case info.IsDir():
			find(dir, name, files)
		default:
			*files = append(*files, foundFile{name, info})
		}
	}
}

// isLeftover reports whether a name is hidden, or that of a copy that an editor makes. .helmignore
// decides which files are part of a chart.
func isLeftover(name string) bool {
	return strings.HasPrefix(name, ".") && name != ".helmignore" || strings.HasSuffix(name, "~") || strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#")
}

// counts reports whether a file is part of a module, or of the global hooks. Documentation and tests are not, but a
// program next to them may be a hook.
func counts(name string) bool {
	top, _, below := strings.Cut(name, "/")
	word := slices.Contains([]string{".yaml", ".json", ".md", ".txt"}, path.Ext(name)) // never hooks
	return !(!below && path.Ext(name) == ".md" || below && word && (top == "tests" || top == "docs"))
}

// inRun reports whether a run combines a file with values that are in force: the chart, and what
// values come from. A hook may write other files. Hooks themselves do not count: what they set is
// checked, and used, whatever their version.
func inRun(name string) bool {
	top, _, _ := strings.Cut(name, "/")
	return slices.Contains([]string{"templates", "charts", "chart", "openapi", "Chart.yaml", "values.yaml", moduleFile}, top)
}
