package lint

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"addon-operator/actors"
	"addon-operator/addons"
	"addon-operator/values"
)

// load finds what loading and 'values check' find.
func (c *checks) load() {
	tree, err := addons.Load(c.Dirs)
	c.tree = tree
	c.fail(err)
	for _, warning := range tree.Warnings {
		if !slices.Contains(tree.Problems, warning) {
			c.say(Warning, warning)
		}
	}
	c.fail(actors.CheckTree(tree))
	on := map[string]string{} // the values of a module that is off may be wrong, too
	for _, m := range tree.Modules {
		on[values.FlagKey(m.Key)] = "true"
	}
	c.fail(actors.CheckConfigMap(tree, on, nil, slog.New(warnings{c})))
	c.global, _ = values.NewSection(values.GlobalKey, tree.Global.Schemas, tree.Global.Static...)
}

// section are the values of a module as they lie on disk; nil when they cannot be read.
func (c *checks) section(m addons.Module) *values.Section {
	if slices.ContainsFunc(c.tree.Broken, func(b addons.Module) bool { return b.Dir == m.Dir }) {
		return nil
	}
	own, err := values.NewSection(m.Key, m.Schemas, m.Static...)
	if err != nil {
		return nil
	}
	return own
}

// warnings are the log of a check, which are findings here.
type warnings struct{ c *checks }

// Enabled implements slog.Handler.
func (w warnings) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (w warnings) Handle(_ context.Context, r slog.Record) error {
	module := ""
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "module" {
			module = a.Value.String()
		}
		return true
	})
	w.c.unread(module, r.Message)
	return nil
}

// WithAttrs implements slog.Handler.
func (w warnings) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup implements slog.Handler.
func (w warnings) WithGroup(string) slog.Handler { return w }

// unread places a value that reaches nothing where it is set.
func (c *checks) unread(module, text string) {
	file, at := c.dirOf(module), place{}
	if m := regexp.MustCompile(`^the value (\S+) reaches nothing`).FindStringSubmatch(text); m != nil {
		if path, err := values.ParsePath(m[1]); err == nil {
			if set, where, ok := c.setIn(c.named(module), path, true); ok {
				file, at = set, where
			}
		}
	}
	c.add(Warning, file, at, text)
}

func (c *checks) named(module string) addons.Module {
	for _, m := range c.tree.Modules {
		if m.Name == module {
			return m
		}
	}
	return addons.Module{}
}

func (c *checks) dirOf(module string) string {
	if m := c.named(module); m.Dir != "" {
		return m.Dir
	}
	return c.roots[0]
}

// setIn finds the file that sets a value, the strongest first: the module's own, then those of the modules directories.
func (c *checks) setIn(m addons.Module, path []string, key bool) (file string, at place, found bool) {
	files := []string{}
	for _, root := range c.roots[:len(c.roots)-1] {
		files = append(files, filepath.Join(root, "values.yaml"))
	}
	if m.Dir != "" {
		files = append(files, filepath.Join(m.Dir, "values.yaml"))
	}
	slices.Reverse(files)
	for _, file := range files {
		if where, depth := c.src.of(file).at(path, key); depth == len(path) {
			return file, where, true
		}
	}
	return "", place{}, false
}

// fail reports an error, with all that it is joined from.
func (c *checks) fail(err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			c.fail(one)
		}
		return
	}
	var wrong *values.ValidationError
	if errors.As(err, &wrong) {
		c.violations(wrong)
		return
	}
	c.say(Error, err.Error())
}

// violations places each value that a schema refuses where it is set. What is required may come from the ConfigMap.
func (c *checks) violations(wrong *values.ValidationError) {
	var m addons.Module
	for _, one := range c.tree.Modules {
		if one.Key == wrong.Section || strings.HasPrefix(wrong.Schema, one.Dir+string(filepath.Separator)) {
			m = one
		}
	}
	for _, v := range wrong.Violations {
		if v.IsMissing() {
			continue
		}
		file, at := wrong.Schema, place{}
		if path, err := values.ParsePath(v.Path); err == nil {
			if set, where, ok := c.setIn(m, path, v.IsUnknownKey()); ok {
				file, at = set, where
			}
		}
		c.add(Error, file, at, v.String()+"; correct the value, or the schema "+c.relative(wrong.Schema))
	}
}

// say reports a text that names its file, as all messages about files do. Further lines are about the same file unless they name
// another one.
func (c *checks) say(severity, text string) {
	file := ""
	for line := range strings.SplitSeq(text, "\n") {
		named, message := c.fileIn(line)
		if named != "" {
			file = named
		}
		if file == "" {
			file = c.roots[0]
		}
		if strings.TrimSpace(message) == "" {
			continue
		}
		at, message := c.locate(file, strings.TrimSpace(message))
		c.add(severity, file, at, message)
	}
}

// fileIn finds the file that a message is about, and returns the message without it where it only says that.
func (c *checks) fileIn(text string) (file, message string) {
	begin, end := -1, -1
	for _, root := range c.roots {
		for _, spelt := range []string{root, c.spelt(root)} {
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
func (c *checks) spelt(root string) string {
	for i, abs := range c.roots {
		if abs == root && i < len(c.Dirs.Modules) {
			return c.Dirs.Modules[i]
		}
	}
	return c.Dirs.Global
}

// isWrapper reports words in front of a path that say nothing that the path does not.
func isWrapper(before string) bool {
	return slices.Contains([]string{"", "values file ", "schema ", "module directory ", "load chart in ", "read chart directory ", "hooks directory "}, before)
}

// locate finds the place that a message names in words.
func (c *checks) locate(file, text string) (place, string) {
	src := c.src.of(file)
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
func (c *checks) add(severity, file string, at place, text string) {
	if len(c.found) >= maxFindings {
		return
	}
	f := Finding{Severity: severity, File: c.relative(file), Path: fromHere(file), Line: at.line, Column: at.column}
	f.Message = cut(strings.TrimSpace(c.short(text)), maxMessage)
	if i := strings.LastIndex(f.Message, "; "); i > 0 && !strings.Contains(f.Message[i:], "\n") {
		f.Message, f.Fix = f.Message[:i], f.Message[i+2:]
	}
	if f.Line > 0 && c.inside(file) {
		f.Excerpt = cut(c.src.of(file).line(f.Line), 8*maxExcerpt)
		f.Column = max(f.Column, 1)
	}
	c.found = append(c.found, f)
	if len(c.found) == maxFindings {
		c.found = append(c.found, Finding{Severity: Error, File: f.File, Path: f.Path, Message: "there are more findings", Fix: "correct these first"})
	}
}

// short is a text with the paths that people know.
func (c *checks) short(text string) string {
	for i, root := range c.roots {
		with := ""
		if i > 0 && len(c.roots) > 2 || i == len(c.roots)-1 {
			with = c.relative(root) + "/"
		}
		text = strings.ReplaceAll(text, root+"/", with)
	}
	return text
}

// relative is a file as findings name it: below its modules directory, or on the way there.
func (c *checks) relative(file string) string {
	base := c.roots[0]
	if len(c.roots) > 2 { // several modules directories: the name alone may be in each of them
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
func (c *checks) inside(file string) bool {
	target, err := filepath.EvalSymlinks(file)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(c.roots, func(root string) bool {
		base, err := filepath.EvalSymlinks(root)
		return err == nil && strings.HasPrefix(target, base+string(filepath.Separator))
	})
}

// about are the findings that were asked for.
func (c *checks) about() []Finding {
	if c.Only == "" {
		return c.found
	}
	only := c.relative(c.Only)
	return slices.DeleteFunc(c.found, func(f Finding) bool { return f.File != only && !strings.HasPrefix(f.File, only+"/") })
}

// maxFiles bounds how many files are looked at for links.
const maxFiles = 100_000

// links warns of links that leave the directories: an image, or an archive of the modules, does not have what they lead to.
func (c *checks) links() {
	seen := 0
	for _, root := range c.roots {
		_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if seen++; seen > maxFiles {
				return fs.SkipAll
			}
			if entry == nil || entry.Type()&fs.ModeSymlink == 0 {
				return nil // what cannot be read is found by who needs it
			}
			if target, err := filepath.EvalSymlinks(path); err == nil && !c.inside(path) {
				c.add(Warning, path, place{}, "is a link to "+target+", outside of the modules and global hooks: what delivers them must bring it, too; copy it to here")
			}
			return nil
		})
	}
}
