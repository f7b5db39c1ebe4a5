package dev

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/messages"
)

// Look checks one directory, or all for "", and plays their tests, as lint.Look does: it calls report with each
// finding, whether it is an error, and the line that lint prints; and returns the last line.
type Look = func(ctx context.Context, c *cli.Config, dirs addons.Dirs, only string, tests bool, report func(bad bool, line string)) (summary string, err error)

// checker checks what was saved: lint checks the modules of the files, and plays their tests.
type checker struct {
	config *cli.Config
	dirs   addons.Dirs
	only   string // module; empty for all
	lint   Look
	show   func(fact)
	due    chan saved // waits for a check; a place for each save while one lasts
}

// newChecker makes a checker; nothing is checked before run is called.
func newChecker(c *cli.Config, dirs addons.Dirs, only string, lint Look, show func(fact)) *checker {
	return &checker{config: c, dirs: dirs, only: only, lint: lint, show: show, due: make(chan saved, 100)}
}

// check requests a check of what was saved.
func (k *checker) check(what saved) { k.due <- what }

// joined has the files of both. a and b stay as they are: one of them may be shown at this moment.
func joined(a, b saved) saved {
	all := maps.Clone(a)
	for owner, files := range b {
		all[owner] = append(slices.Clone(all[owner]), files...)
	}
	return all
}

// run checks what is due, until ctx ends. What is saved meanwhile waits, joined. A file that concerns
// all modules has all checked; an entry without files, as at the start, plays no tests.
func (k *checker) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case what := <-k.due:
			for len(k.due) > 0 {
				what = joined(what, <-k.due)
			}
			files, all := what[""]
			switch {
			case !all:
				for _, owner := range slices.Sorted(maps.Keys(what)) {
					k.look(ctx, owner, true)
				}
			case k.only != "": // "" would be all modules, also those next to the only one
				k.look(ctx, messages.GlobalHooks, len(files) > 0)
				k.look(ctx, k.only, len(files) > 0)
			default:
				k.look(ctx, "", len(files) > 0)
			}
		}
	}
}

// look shows what lint finds in the directory of an owner, or of all for "". After the end of ctx it
// shows nothing, because the result is not complete.
func (k *checker) look(ctx context.Context, owner string, tests bool) {
	dir := k.dir(owner)
	if owner != "" && dir == "" {
		return // it is gone
	}
	var found []fact
	add := func(bad bool, text string) {
		found = append(found, fact{about: aboutLint, module: messages.ModuleOf(owner), text: text, bad: bad})
	}
	summary, err := k.lint(ctx, k.config, k.dirs, dir, tests, add)
	if add(false, summary); err != nil {
		add(true, err.Error())
	}
	for _, f := range found {
		if ctx.Err() == nil && f.text != "" {
			k.show(f)
		}
	}
}

// dir returns the directory of a module, or of the global hooks; "" when it does not exist any
// more. The name of the directory may have another number than before.
func (k *checker) dir(owner string) string {
	if owner == messages.GlobalHooks {
		return k.dirs.Global
	}
	for _, root := range k.dirs.Modules {
		entries, _ := os.ReadDir(root)
		for _, entry := range entries {
			if dir := filepath.Join(root, entry.Name()); cli.IsDir(dir) && entry.Name()[0] != '.' && moduleName(dir) == owner {
				return dir
			}
		}
	}
	return ""
}

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
