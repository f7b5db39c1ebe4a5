package lint

import (
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"

	"addon-operator/actors/check"
	"addon-operator/addons"
	"addon-operator/values"
)

// load loads the tree and reports what loading and 'values check' find. It sets tree and global. A
// tree with errors has the files that could be read, and the other checks continue with it.
func (c *checks) load() {
	dirs := c.Dirs
	dirs.FullPaths = true // findings have the place in a file, so the file must be found
	tree, err := addons.Load(dirs)
	c.tree = tree
	found := loaded{tree, c.found}
	found.fail(err)
	// Problems are warnings, too; check.Tree reports them as errors.
	for _, warning := range tree.Warnings {
		if !slices.Contains(tree.Problems, warning) {
			c.found.addMessage(Warning, warning)
		}
	}
	found.fail(check.Tree(tree, &c.Memory.charts))
	// All modules count as enabled: values of disabled ones are not validated (D37), but they
	// become errors when one is enabled.
	on := map[string]string{}
	for _, m := range tree.Modules {
		on[values.FlagKey(m.Key)] = "true"
	}
	found.fail(check.ConfigMap(tree, on, nil, slog.New(slog.DiscardHandler)))
	c.global, _ = values.NewSection(values.GlobalKey, tree.Global.Schemas, tree.Global.Static...)
}

// section returns the values of a module on disk; nil when they or the module cannot be read, which
// load has reported.
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

// loaded places the errors of loading, which name keys and sections, in the files that set them.
type loaded struct {
	tree  *addons.Tree
	found *findings
}

// named returns the module of a name; the zero Module, whose Dir is "", when there is none.
func (l loaded) named(module string) addons.Module {
	for _, m := range l.tree.Modules {
		if m.Name == module {
			return m
		}
	}
	return addons.Module{}
}

// dirOf returns the directory of a module; without one the first modules directory, whose
// values.yaml has the global values.
func (l loaded) dirOf(module string) string {
	if m := l.named(module); m.Dir != "" {
		return m.Dir
	}
	return l.found.roots[0]
}

// setIn finds the file and place that set a value, the strongest first (D5): the module's own
// values.yaml, then those of the roots, of which the last one wins. The path begins with the
// section. key is that of source.at.
func (l loaded) setIn(m addons.Module, path []string, key bool) (file string, at place, found bool) {
	files := []string{}
	for _, root := range l.found.roots[:len(l.found.roots)-1] {
		files = append(files, filepath.Join(root, "values.yaml"))
	}
	if m.Dir != "" {
		files = append(files, filepath.Join(m.Dir, "values.yaml"))
	}
	slices.Reverse(files)
	for _, file := range files {
		if where, depth := l.found.src.of(file).at(path, key); depth == len(path) {
			return file, where, true
		}
	}
	return "", place{}, false
}

// fail reports all errors that err is joined from. Violations of a schema are placed one by one.
func (l loaded) fail(err error) {
	for _, one := range joined(err) {
		var wrong *values.ValidationError
		var unused check.UnusedError
		switch {
		case errors.As(one, &wrong):
			l.violations(wrong)
		case errors.As(one, &unused):
			l.found.addMessage(Error, unused.Called(unused.Path))
		default:
			l.found.addMessage(Error, one.Error())
		}
	}
}

// joined returns the errors that err is joined from, at any depth, in their order: each becomes a
// finding of its own. Of nil there are none.
func joined(err error) (all []error) {
	if err == nil {
		return nil
	}
	list, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	for _, one := range list.Unwrap() {
		all = append(all, joined(one)...)
	}
	return all
}

// violations places each value that a schema refuses in the file that sets it; a value that no file
// sets, such as a default, is placed in the schema. A missing value is no finding: it may come from
// the ConfigMap.
func (l loaded) violations(wrong *values.ValidationError) {
	var m addons.Module
	for _, one := range l.tree.Modules {
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
			if set, where, ok := l.setIn(m, path, v.IsUnknownKey()); ok {
				file, at = set, where
			}
		}
		l.found.add(Error, file, at, v.String()+"; correct the value, or the schema "+l.found.relative(wrong.Schema))
	}
}
