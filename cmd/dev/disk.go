package dev

import (
	"context"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"addon-operator/addons"
	"addon-operator/messages"
)

// saved are files that have changed: their paths below their root, by the module that they belong
// to, messages.GlobalHooks, or "" for files that concern all modules. An entry "" without files
// asks for a check of everything.
type saved map[string][]string

// disk finds out which files were saved, by comparing them with what they were. Package addons only
// reports that something has changed.
type disk struct {
	dirs addons.Dirs
	// files has the stamp of each file by its path below its root, by root. Only the goroutine of
	// addons.Watch touches it after the start.
	files map[string]map[string]string
}

// newDisk reads the stamps of all files: what is saved from now on is a change.
func newDisk(dirs addons.Dirs) *disk {
	d := &disk{dirs: dirs}
	d.files = d.look()
	return d
}

func (d *disk) look() map[string]map[string]string {
	now := map[string]map[string]string{}
	for _, root := range append(slices.Clone(d.dirs.Modules), d.dirs.Global) {
		now[root] = addons.Files(root)
	}
	return now
}

// watch calls post with what was saved, until ctx ends. It returns at once.
func (d *disk) watch(ctx context.Context, post func(saved)) {
	addons.Watch(ctx, d.dirs, addons.Often, func() {
		if changed := d.compare(); len(changed) > 0 {
			post(changed)
		}
	})
}

// compare returns what has changed since the last call. Several saves of a file are one change.
func (d *disk) compare() saved {
	changed := saved{}
	now := d.look()
	for root, files := range now {
		before, all := d.files[root], maps.Clone(files)
		maps.Copy(all, d.files[root])
		for name := range all {
			owner, what := d.owner(root, name), ""
			switch {
			case files[name] == before[name]:
				continue
			case before[name] == "":
				what = " (new)"
			case files[name] == "":
				what = " (removed)"
			}
			changed[owner] = append(changed[owner], name+what)
		}
	}
	d.files = now
	for _, names := range changed {
		slices.Sort(names)
	}
	return changed
}

// owner is the key in saved for a file: a file directly in a root of modules, such as values.yaml,
// concerns all.
func (d *disk) owner(root, name string) string {
	if root == d.dirs.Global {
		return messages.GlobalHooks
	}
	dir, _, inside := strings.Cut(name, "/")
	if !inside {
		return ""
	}
	return moduleName(dir)
}

// moduleName is the name of a module, from that of its directory: without the number (A4).
func moduleName(dir string) string {
	return regexp.MustCompile(`^\d+-`).ReplaceAllString(filepath.Base(dir), "")
}

// facts describe what was saved.
func (s saved) facts() (facts []fact) {
	for _, owner := range slices.Sorted(maps.Keys(s)) {
		facts = append(facts, fact{about: aboutDisk, module: messages.ModuleOf(owner), text: "saved: " + strings.Join(s[owner], ", ")})
	}
	return facts
}
