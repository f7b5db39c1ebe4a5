package addons

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// part is a part of the files of a module, by what follows when one of them changes.
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

// contents sums up the files below a directory.
type contents struct {
	// stamp changes when a file appears, disappears, or changes its size, time or mode.
	stamp sum
	// settled: no file was written just before it was read. Else another write may have left the stamp as it is.
	settled bool
	parts   [allParts]sum
}

// The limits of a directory. What is beyond them, or cannot be read, is not compared; of a larger file only size and time are.
const (
	maxDepth   = 32 // stops at symbolic links that point upwards
	maxFiles   = 20_000
	maxHashed  = 4 << 20
	settleTime = time.Second // coarser than the times of any file system in use
)

// look reads the files below a directory, unless their stamp is the known one.
func look(dir string, known contents, partOf func(name string) part) contents {
	var files []foundFile
	find(dir, "", &files)
	now := contents{stamp: stampOf(files), settled: true}
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
	words := noPart
	if templatesRead(dir, files) {
		words = chartPart
	}
	for i := range now.parts {
		all := sha256.New()
		for _, f := range files {
			p := partOf(f.name)
			if p == noPart {
				p = words
			}
			if f.name != "values.yaml" && p != part(i) || f.name == "values.yaml" && part(i) == hooksPart { // these are the chart's defaults, too
				continue
			}
			one := f.sum(dir)
			all.Write(one[:])
		}
		all.Sum(now.parts[i][:0])
	}
	return now
}

// Stamp changes when a file appears, disappears, or changes its size, time or mode, at or below a path. It is for who plays tests again;
// Refresh looks closer.
func Stamp(path string) string {
	var files []foundFile
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		files = append(files, foundFile{path, info})
	}
	find(path, "", &files)
	stamp := stampOf(files)
	return string(stamp[:])
}

type foundFile struct {
	name string // with slashes, from the directory on
	info fs.FileInfo
}

// stamp is what shows without reading the file.
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

// sum is that of name, mode and content, or of the stamp of a file that cannot be read.
func (f foundFile) sum(dir string) (s sum) {
	all := sha256.New()
	if !f.copyTo(all, dir) {
		all.Write(f.stamp())
	}
	all.Sum(s[:0])
	return s
}

func (f foundFile) copyTo(all io.Writer, dir string) (whole bool) {
	if !f.info.Mode().IsRegular() || f.info.Size() > maxHashed {
		return false
	}
	file, err := os.Open(filepath.Join(dir, filepath.FromSlash(f.name)))
	if err != nil {
		return false
	}
	defer file.Close()
	fmt.Fprintf(all, "%s\x00%o\x00", f.name, f.info.Mode().Perm()&0o111)
	_, err = io.Copy(all, io.LimitReader(file, maxHashed))
	return err == nil
}

// find lists the files below a directory in order, through symbolic links. Hidden ones, and what editors leave behind, do
// not count.
func find(dir, below string, files *[]foundFile) {
	entries, err := os.ReadDir(filepath.Join(dir, filepath.FromSlash(below)))
	if err != nil || strings.Count(below, "/") > maxDepth {
		return
	}
	for _, entry := range entries {
		name := path.Join(below, entry.Name())
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name)))
		switch {
		case err != nil || isLeftover(entry.Name()) || len(*files) >= maxFiles: // err: a link that leads nowhere, or just deleted
		case info.IsDir():
			find(dir, name, files)
		default:
			*files = append(*files, foundFile{name, info})
		}
	}
}

// isLeftover reports whether a name is hidden, or of a copy that an editor makes.
func isLeftover(name string) bool {
	return strings.HasPrefix(name, ".") && name != ".helmignore" || strings.HasSuffix(name, "~") || strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#")
}

// templatesRead reports whether templates of a chart in the directory itself may read its files.
func templatesRead(dir string, files []foundFile) (reads bool) {
	for _, f := range files {
		top, _, _ := strings.Cut(f.name, "/")
		switch {
		case f.name == "chart/Chart.yaml":
			return false // its files are those below chart/
		case !reads && (top == "templates" || top == "charts"):
			var text bytes.Buffer
			reads = f.copyTo(&text, dir) && bytes.Contains(text.Bytes(), []byte(".Files"))
		}
	}
	return reads
}

// partOfModule says which part of a module a file belongs to. Words and tests are for people, unless templates read files: then they are part
// of the chart.
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

// partOfGlobal does it for the directory of global hooks. Words and tests are for people there, too; a program next to them may be a hook.
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
