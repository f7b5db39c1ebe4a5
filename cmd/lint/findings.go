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

// findings collects what is wrong in a tree. Its callers have messages that were made for a log of
// the operator, with a path somewhere in the text; findings takes the place out of the text,
// shortens the paths, and adds the excerpt.
type findings struct {
	roots []string // absolute directories: those of modules, then that of global hooks
	// given are the same directories as they were spelled: loading puts these into its messages.
	given addons.Dirs
	src   sources
	list  []Finding
}

// newFindings makes the directories absolute. Nothing else of the tree is read yet.
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

// addMessage adds a message that names its file somewhere, as all messages about files do. Each line
// becomes a finding: a line that names no file is about that of the line before it, and before any
// file is named, about the modules directory.
func (f *findings) addMessage(severity, text string) {
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

// fileIn finds the file that a message is about: a mention of one of the directories in either
// spelling, where an earlier or a longer one wins, and from there the longest path that
// exists. The message is returned without the path where that only means "this file: …", since findings
// show the file in front of the message.
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
			// Names of files may contain the characters that end a path in a message, so the
			// longest path that exists counts, not the first.
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

// spelt is a root as it was given, which is how messages about its files begin.
func (f *findings) spelt(root string) string {
	for i, abs := range f.roots {
		if abs == root && i < len(f.given.Modules) {
			return f.given.Modules[i]
		}
	}
	return f.given.Global
}

// isWrapper reports whether words in front of a path add nothing to the path.
func isWrapper(before string) bool {
	return slices.Contains([]string{"", "values file ", "schema ", "module directory ", "load chart in ", "read chart directory ", "hooks directory "}, before)
}

// locate finds the place that a message names in words: a line number, a JSON pointer as schemas
// write it, or a key of YAML. The first pattern whose path is at least partly in the file counts; a
// message that names no place is about the whole file, and has the zero place. A line number is cut
// from the message, because the place shows it.
func (f *findings) locate(file, text string) (place, string) {
	src := f.src.of(file)
	if at, rest, ok := numbered(text); ok {
		if at.column == 0 {
			at = src.start(at.line)
		}
		// Messages of parsers quote the word that they refuse, which is better than the start of
		// its line.
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

// add collects a finding with its excerpt. The text after the last semicolon of a message is the
// fix. After maxFindings one last finding reports that there are more, and the rest is
// dropped. A file outside of the directories has no excerpt.
func (f *findings) add(severity, file string, at place, text string) {
	if len(f.list) >= maxFindings {
		return
	}
	one := Finding{Severity: severity, File: f.relative(file), Path: fromHere(file), Line: at.line, Column: at.column}
	one.Message, one.Fix = withFix(cut(strings.TrimSpace(f.short(text)), maxMessage))
	if one.Line > 0 && f.inside(file) {
		one.Excerpt = excerpt(f.src.of(file).line(one.Line))
		one.Column = max(one.Column, 1)
	}
	f.list = append(f.list, one)
	if len(f.list) == maxFindings {
		f.list = append(f.list, Finding{Severity: Error, File: one.File, Path: one.Path, Message: "there are more findings", Fix: "correct these first"})
	}
}

// withFix splits a message of the operator: what follows its last semicolon is what to do about it.
// A semicolon in an earlier line belongs to quoted output, and splits nothing.
func withFix(text string) (message, fix string) {
	if i := strings.LastIndex(text, "; "); i > 0 && !strings.Contains(text[i:], "\n") {
		return text[:i], text[i+2:]
	}
	return text, ""
}

// short shortens absolute paths in a text: in the first modules directory they become relative
// to it, in others they begin with the name of the directory.
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

// relative is a file as findings name it: relative to the modules directory, also when it is
// outside of it, as ../global-hooks/… are.
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

// fromHere is an absolute path relative to the working directory, or as it is where there is no
// such path.
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

// inside reports whether a file is below the directories, also after all links are followed.
// Nothing is shown of other files: a link in a module of a stranger must not print a secret of this
// machine.
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

// about returns the findings in the directory of one module; "" returns all. The list is not usable
// afterwards.
func (f *findings) about(dir string) []Finding {
	if dir == "" {
		return f.list
	}
	only := f.relative(dir)
	return slices.DeleteFunc(f.list, func(one Finding) bool { return one.File != only && !strings.HasPrefix(one.File, only+"/") })
}

// maxFiles bounds how many files a walk looks at: a directory may hold a checkout of anything.
const maxFiles = 100_000

// links warns of links that leave the directories: an image, or an archive of the modules, does not
// have what they lead to.
func (f *findings) links() {
	seen := 0
	for _, root := range f.roots {
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if seen++; seen > maxFiles {
				return fs.SkipAll
			}
			if entry == nil || entry.Type()&fs.ModeSymlink == 0 {
				return nil // a check that needs the file reports that it cannot be read
			}
			if target, err := filepath.EvalSymlinks(path); err == nil && !f.inside(path) {
				f.add(Warning, path, place{}, "is a link to "+target+", outside of the modules and global hooks: it must be delivered together with them; copy it here")
			}
			return nil
		})
	}
}

// back translates a place in what a script or template printed into the place in the script or
// template that made it; the zero place when no line of it looks like the printed one.
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
	// The line is printed as it is, perhaps with another indent: the column moves with it.
	if here := src.line(line); same(here, string(printed)) {
		return place{line, at.column + src.start(line).column - output.start(at.line).column}
	}
	if text := strings.TrimSpace(string(printed)); strings.Contains(src.line(line), text) { // within a line
		return place{line, at.column + src.word(line, text).column - output.start(at.line).column}
	}
	// Only the key is the same, and the value is computed: the place is that of the key.
	word := string(printed[min(at.column-1, len(printed)):])
	if first, _, found := strings.Cut(word, ":"); found {
		word = first
	}
	return src.word(line, word)
}
