package dev

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"

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
