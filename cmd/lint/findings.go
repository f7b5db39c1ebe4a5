package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"addon-operator/addons"
	"addon-operator/values"
)

// findings are what is wrong in a tree, placed where people correct it.
type findings struct {
	roots []string // absolute directories: those of modules, then that of global hooks
	given addons.Dirs
	src   sources
	list  []Finding
}

// newFindings says of relative directories where they are.
func newFindings(given addons.Dirs) (*findings, error) {
	f := &findings{given: given}
	for _, dir := range append(slices.Clone(given.Modules), given.Global) {
		root, err := filepath.Abs(dir)
		if err != nil {
			return nil, err
		}
		f.roots = append(f.roots, root)
	}
	return f, nil
}

// say reports a text that names its file, as all messages about files do. Further lines are about the same file unless they name
// another one.
func (f *findings) say(severity, text string) {
	file := ""
	for line := range strings.SplitSeq(text, "\n") {
		named, message := f.fileIn(line)
		if named != "" {
			file = named
		}
		if file == "" {
			file = f.roots[0]
		}
		if strings.TrimSpace(message) == "" {
			continue
		}
		at, message := f.locate(file, strings.TrimSpace(message))
		f.add(severity, file, at, message)
	}
}

// fileIn finds the file that a message is about, and returns the message without it where it only says that.
func (f *findings) fileIn(text string) (file, message string) {
	begin, end := -1, -1
	for _, root := range f.roots {
		for _, spelt := range []string{root, f.spelt(root)} {
			i := strings.Index(text, spelt)
			if i < 0 || begin >= 0 && i >= begin && end-begin >= len(spelt) {
				continue
			}
			begin, end = i, i+len(spelt)
			file = root + text[begin+len(spelt):end]
			for j := end; j <= len(text); j++ {
				if j < len(text) && !strings.ContainsRune(" :;,\"'", rune(text[j])) {
					continue
				}
				path := root + text[i+len(spelt):j]
				if _, err := os.Lstat(path); err == nil {
					end, file = j, path
				}
			}
		}
	}
	if begin < 0 {
		return "", text
	}
	before, after := text[:begin], text[end:]
	switch {
	case strings.HasPrefix(after, ": ") && isWrapper(before):
		return file, after[2:]
	case before == "" && strings.HasPrefix(after, " "):
		return file, after[1:]
	}
	return file, text
}

// spelt is a root as it was given, which is how messages about it name it.
func (f *findings) spelt(root string) string {
	for i, abs := range f.roots {
		if abs == root && i < len(f.given.Modules) {
			return f.given.Modules[i]
		}
	}
	return f.given.Global
}

// isWrapper reports words in front of a path that say nothing that the path does not.
func isWrapper(before string) bool {
	return slices.Contains([]string{"", "values file ", "schema ", "module directory ", "load chart in ", "read chart directory ", "hooks directory "}, before)
}

// locate finds the place that a message names in words.
func (f *findings) locate(file, text string) (place, string) {
	src := f.src.of(file)
	if at, rest, ok := numbered(text); ok {
		if at.column == 0 {
			at = src.start(at.line)
		}
		if quoted := regexp.MustCompile(`"([^"]+)"`).FindStringSubmatch(rest); quoted != nil {
			at = src.word(at.line, quoted[1])
		}
		return at, rest
	}
	patterns := []struct {
		form string
		key  bool
	}{{`^(/\S*): `, false}, {`^key (\S+?):? `, false}, {`^section (\S+): `, true}, {`^has the flag (\w+),`, true}, {`^has values for (\w+),`, true}, {`^([\w.]+) must be `, false}, {`^(\w+)[: ]`, true}}
	for _, p := range patterns {
		found := regexp.MustCompile(p.form).FindStringSubmatch(text)
		if found == nil {
			continue
		}
		path, err := values.ParsePath(found[1])
		if err != nil {
			continue
		}
		if at, depth := src.at(path, p.key); depth > 0 {
			return at, text
		}
	}
	return place{}, text
}

// add notes a finding. What follows the last semicolon of a message is what to do.
func (f *findings) add(severity, file string, at place, text string) {
	if len(f.list) >= maxFindings {
		return
	}
	one := Finding{Severity: severity, File: f.relative(file), Path: fromHere(file), Line: at.line, Column: at.column}
	one.Message = cut(strings.TrimSpace(f.short(text)), maxMessage)
	if i := strings.LastIndex(one.Message, "; "); i > 0 && !strings.Contains(one.Message[i:], "\n") {
		one.Message, one.Fix = one.Message[:i], one.Message[i+2:]
	}
	if one.Line > 0 && f.inside(file) {
		one.Excerpt = cut(f.src.of(file).line(one.Line), 8*maxExcerpt)
		one.Column = max(one.Column, 1)
	}
	f.list = append(f.list, one)
	if len(f.list) == maxFindings {
		f.list = append(f.list, Finding{Severity: Error, File: one.File, Path: one.Path, Message: "there are more findings", Fix: "correct these first"})
	}
}

// short is a text with the paths that people know.
func (f *findings) short(text string) string {
	for i, root := range f.roots {
		with := ""
		if i > 0 && len(f.roots) > 2 || i == len(f.roots)-1 {
			with = f.relative(root) + "/"
		}
		text = strings.ReplaceAll(text, root+"/", with)
	}
	return text
}

// relative is a file as findings name it: below its modules directory, or on the way there.
func (f *findings) relative(file string) string {
	base := f.roots[0]
	if len(f.roots) > 2 { // several modules directories: the name alone may be in each of them
		base = filepath.Dir(base)
	}
	rel, err := filepath.Rel(base, file)
	if err != nil {
		return file
	}
	return filepath.ToSlash(rel)
}

func fromHere(file string) string {
	here, err := os.Getwd()
	if err != nil {
		return file
	}
	if rel, err := filepath.Rel(here, file); err == nil {
		return filepath.ToSlash(rel)
	}
	return file
}

// inside reports whether a file lies below the directories, also after all links were followed: nothing is shown of others.
func (f *findings) inside(file string) bool {
	target, err := filepath.EvalSymlinks(file)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(f.roots, func(root string) bool {
		base, err := filepath.EvalSymlinks(root)
		return err == nil && strings.HasPrefix(target, base+string(filepath.Separator))
	})
}

// about are those in the directory of one module; empty: all.
func (f *findings) about(dir string) []Finding {
	if dir == "" {
		return f.list
	}
	only := f.relative(dir)
	return slices.DeleteFunc(f.list, func(one Finding) bool { return one.File != only && !strings.HasPrefix(one.File, only+"/") })
}

// maxFiles bounds how many files are looked at for links.
const maxFiles = 100_000

// links warns of links that leave the directories: an image, or an archive of the modules, does not have what they lead to.
func (f *findings) links() {
	seen := 0
	for _, root := range f.roots {
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if seen++; seen > maxFiles {
				return fs.SkipAll
			}
			if entry == nil || entry.Type()&fs.ModeSymlink == 0 {
				return nil // what cannot be read is found by who needs it
			}
			if target, err := filepath.EvalSymlinks(path); err == nil && !f.inside(path) {
				f.add(Warning, path, place{}, "is a link to "+target+", outside of the modules and global hooks: what delivers them must bring it, too; copy it to here")
			}
			return nil
		})
	}
}

// back is the place in a script, or a template, of a place in what it printed.
func (f *findings) back(path string, output *source, at place) place {
	src := f.src.of(path)
	if at.line == 0 {
		return place{}
	}
	line, ok := src.origin(output, at.line)
	if !ok {
		return place{}
	}
	if at.column == 0 {
		return src.start(line)
	}
	printed := []rune(output.line(at.line))
	if here := src.line(line); same(here, string(printed)) {
		return place{line, at.column + src.start(line).column - output.start(at.line).column}
	}
	if text := strings.TrimSpace(string(printed)); strings.Contains(src.line(line), text) { // within a line
		return place{line, at.column + src.word(line, text).column - output.start(at.line).column}
	}
	word := string(printed[min(at.column-1, len(printed)):])
	if first, _, found := strings.Cut(word, ":"); found {
		word = first
	}
	return src.word(line, word)
}
