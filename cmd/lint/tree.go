package lint

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"addon-operator/actors/check"
	"addon-operator/addons"
	"addon-operator/values"
)

// load finds what loading and 'values check' find.
func (c *checks) load() {
	tree, err := addons.Load(c.Dirs)
	c.tree = tree
	found := loaded{tree, c.found}
	found.fail(err)
	for _, warning := range tree.Warnings {
		if !slices.Contains(tree.Problems, warning) {
			c.found.say(Warning, warning)
		}
	}
	found.fail(check.Tree(tree, &c.Memory.charts))
	on := map[string]string{} // the values of a module that is off may be wrong, too
	for _, m := range tree.Modules {
		on[values.FlagKey(m.Key)] = "true"
	}
	found.fail(check.ConfigMap(tree, on, nil, slog.New(warnings{found}), &c.Memory.charts))
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
type warnings struct{ loaded }

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
	w.unread(module, r.Message)
	return nil
}

// WithAttrs implements slog.Handler.
func (w warnings) WithAttrs([]slog.Attr) slog.Handler { return w }

// WithGroup implements slog.Handler.
func (w warnings) WithGroup(string) slog.Handler { return w }

// loaded is a tree whose errors are placed.
type loaded struct {
	tree  *addons.Tree
	found *findings
}

// unread places a value that has no effect where it is set.
func (l loaded) unread(module, text string) {
	file, at := l.dirOf(module), place{}
	if m := regexp.MustCompile(`^the value (\S+) has no effect`).FindStringSubmatch(text); m != nil {
		if path, err := values.ParsePath(m[1]); err == nil {
			if set, where, ok := l.setIn(l.named(module), path, true); ok {
				file, at = set, where
			}
		}
	}
	l.found.add(Warning, file, at, text)
}

func (l loaded) named(module string) addons.Module {
	for _, m := range l.tree.Modules {
		if m.Name == module {
			return m
		}
	}
	return addons.Module{}
}

func (l loaded) dirOf(module string) string {
	if m := l.named(module); m.Dir != "" {
		return m.Dir
	}
	return l.found.roots[0]
}

// setIn finds the file that sets a value, the strongest first: the module's own, then those of the modules directories.
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

// fail reports an error, with all that it is joined from.
func (l loaded) fail(err error) {
	if err == nil {
		return
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range joined.Unwrap() {
			l.fail(one)
		}
		return
	}
	if wrong, ok := errors.AsType[*values.ValidationError](err); ok {
		l.violations(wrong)
		return
	}
	l.found.say(Error, err.Error())
}

// violations places each value that a schema refuses where it is set. What is required may come from the ConfigMap.
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
