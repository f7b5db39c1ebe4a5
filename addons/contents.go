package addons

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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

// part is a part of the files of a module. The parts differ in what follows when one of their files
// changes (P8).
type part int

const (
	configPart part = iota // values, schemas, the enabled script, module.yaml: the module is loaded again
	hooksPart              // hooks are asked for their configuration again
	chartPart              // the module runs
	crdsPart               // definitions are applied again, and the module runs
	allParts
	noPart = allParts // nothing follows
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
	parts   [allParts]sum
	// content has the files that belong to a part, and whether they have content. See lost.
	content map[string]bool
}

// The limits of a directory. What is beyond them, or cannot be read, is not compared; of a larger
// file only size and time are.
const (
	maxDepth   = 32 // stops at symbolic links that point upwards
	maxFiles   = 100_000
	maxHashed  = 4 << 20
	settleTime = time.Second // coarser than the times of any file system in use
)

// look reads the files below a directory, unless their stamp is the known one: then known is
// returned, which is the usual case, and costs no more than the names and times of the files.
func look(dir string, known contents, partOf func(name string) part) contents {
	var files []foundFile
	find(dir, "", &files)
	now := contents{stamp: stampOf(files), settled: true}
	// Another tree behind the same link may have the same times and sizes: trees that are made to
	// be reproducible do.
	if target, err := filepath.EvalSymlinks(dir); err == nil { // another tree may have the same times and sizes, as those have that are made to be reproducible
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
	// Files for people (partOfModule) are part of the chart if its templates may read them by
	// .Files.
	words := noPart
	if templatesRead(dir, files) {
		words = chartPart
	}
	now.content = map[string]bool{}
	for i := range now.parts {
		all := sha256.New()
		for _, f := range files {
			p := partOf(f.name)
			if p == noPart {
				p = words
			}
			// values.yaml counts in each part but that of hooks: it also has defaults of the chart.
			if f.name != "values.yaml" && p != part(i) || f.name == "values.yaml" && part(i) == hooksPart {
				continue
			}
			one, has := f.sum(dir)
			all.Write(one[:])
			if partOf(f.name) != noPart {
				now.content[f.name] = has
			}
		}
		all.Sum(now.parts[i][:0])
	}
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
	numbers := binary.BigEndian.AppendUint64(nil, uint64(f.info.Size()))
	numbers = binary.BigEndian.AppendUint64(numbers, uint64(f.info.ModTime().UnixNano()))
	numbers = binary.BigEndian.AppendUint32(numbers, uint32(f.info.Mode()))
	return append(append(numbers, f.name...), 0)
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
	all := sha256.New()
	text, whole := f.read(dir)
	if whole {
		fmt.Fprintf(all, "%s\x00%o\x00", f.name, f.info.Mode().Perm()&0o111) // x bits decide whether a file is a hook
		all.Write(text)
	} else {
		all.Write(f.stamp())
	}
	all.Sum(s[:0])
	return s, charts.HasContent(text) || !whole && f.info.Mode().IsRegular() && f.info.Size() > 0
}

// read returns the content of a file, and whether it is all of it: a file may be unreadable or too
// large.
func (f foundFile) read(dir string) (text []byte, whole bool) {
	if !f.info.Mode().IsRegular() || f.info.Size() > maxHashed {
		return nil, false
	}
	file, err := os.Open(filepath.Join(dir, filepath.FromSlash(f.name)))
	if err != nil {
		return nil, false
	}
	defer file.Close()
	text, err = io.ReadAll(io.LimitReader(file, maxHashed))
	return text, err == nil
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

// templatesRead reports whether templates of a chart in the directory itself may read its files by
// .Files. A chart in chart/ only has the files below it, which are part of the chart anyway.
func templatesRead(dir string, files []foundFile) (reads bool) {
	for _, f := range files {
		top, _, _ := strings.Cut(f.name, "/")
		switch {
		case f.name == "chart/Chart.yaml":
			return false // its files are those below chart/
		case !reads && (top == "templates" || top == "charts"):
			text, whole := f.read(dir)
			reads = whole && bytes.Contains(text, []byte(".Files"))
		}
	}
	return reads
}

// partOfModule returns the part of a module that a file belongs to. Documentation and tests are
// noPart: look makes them part of the chart if templates read files.
func partOfModule(name string) part {
	top, _, below := strings.Cut(name, "/")
	if !below && path.Ext(name) == ".md" {
		return noPart
	}
	switch top {
	case "tests", "docs":
		return noPart
	case "values.yaml", "openapi", "enabled", moduleFile:
		return configPart
	case "hooks":
		return hooksPart
	case "crds":
		return crdsPart
	}
	if strings.HasPrefix(name, "chart/crds/") {
		return crdsPart
	}
	return chartPart
}

// partOfGlobal is partOfModule for the directory of global hooks. Documentation and tests do not
// count there either, but a program next to them may be a hook.
func partOfGlobal(name string) part {
	top, _, below := strings.Cut(name, "/")
	word := slices.Contains([]string{".yaml", ".json", ".md", ".txt"}, path.Ext(name)) // never hooks
	switch {
	case below && top == "openapi":
		return configPart
	case !below && path.Ext(name) == ".md", below && word && (top == "tests" || top == "docs"):
		return noPart
	}
	return hooksPart
}
