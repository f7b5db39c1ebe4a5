package dev

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"addon-operator/actors/scenario"
	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// These limits are shorter than those of lint and of the operator where the author waits for the
// answer.
const (
	hookLimit = 10 * time.Second // of --config and of an enabled script
	stepLimit = time.Minute      // of a step of a test
)

// Look checks one directory, or all for "", as lint.Look does: it calls report with each finding:
// whether it is an error, and the line that lint prints. hookLimit is for --config of a hook,
// and for an enabled script.
type Look = func(ctx context.Context, c *cli.Config, dirs addons.Dirs, only string, hookLimit time.Duration, report func(bad bool, line string)) error

// checker checks what was saved: lint checks the modules of the files, then their tests are played.
type checker struct {
	config *cli.Config
	dirs   addons.Dirs
	only   string // module; empty for all
	lint   Look
	show   func(fact)
	// due has what waits for a check, at most one value, which check joins with what comes later.
	due chan saved
}

// newChecker makes a checker; nothing is checked before run is called.
func newChecker(c *cli.Config, dirs addons.Dirs, only string, lint Look, show func(fact)) *checker {
	return &checker{config: c, dirs: dirs, only: only, lint: lint, show: show, due: make(chan saved, 1)}
}

// check requests a check of what was saved. It never blocks, and may be called from several
// goroutines.
func (k *checker) check(what saved) {
	for {
		select {
		case k.due <- what:
			return
		// The loop ends: a caller that fills the channel again in between adds to it, and that is joined,
		// too.
		case waiting := <-k.due:
			what = joined(waiting, what)
		}
	}
}

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
			owners := slices.Sorted(maps.Keys(what))
			if files, all := what[""]; all {
				k.look(ctx, "")
				owners = nil
				if len(files) > 0 {
					owners = k.owners()
				}
			} else {
				for _, owner := range owners {
					k.look(ctx, owner)
				}
			}
			for _, owner := range owners {
				k.test(ctx, owner)
			}
		}
	}
}

// look shows what lint finds in the directory of an owner, or of all for "". After the end of ctx it
// shows nothing, because the result is not complete.
func (k *checker) look(ctx context.Context, owner string) {
	dirs, about := []string{k.dir(owner)}, fact{about: aboutLint, module: messages.ModuleOf(owner)}
	switch {
	case owner != "" && dirs[0] == "":
		return // it is gone
	case owner == "" && k.only != "": // "" would be all modules, also those next to the only one
		dirs = []string{k.dirs.Global, k.dir(k.only)}
	}
	var found []fact
	for _, dir := range dirs {
		err := k.lint(ctx, k.config, k.dirs, dir, hookLimit, func(bad bool, line string) {
			about.text, about.bad = line, bad
			found = append(found, about)
		})
		if err != nil {
			about.text, about.bad = err.Error(), true
			found = append(found, about)
		}
	}
	if ctx.Err() != nil {
		return
	}
	for _, f := range found {
		k.show(f)
	}
	switch about.bad = false; {
	case owner == "":
		about.text = view.Count(len(found), "finding") + "; a save also runs the tests of its module"
		k.show(about)
	case len(found) == 0: // the author waits for an answer to the save
		about.text = "no findings"
		k.show(about)
	}
}

// owners returns all modules on disk and the global hooks, with or without tests.
func (k *checker) owners() []string {
	if k.only != "" {
		return []string{messages.GlobalHooks, k.only}
	}
	owners := []string{messages.GlobalHooks}
	k.each(func(dir string) { owners = append(owners, moduleName(dir)) })
	return owners
}

// dir returns the directory of a module, or of the global hooks; "" when it does not exist any
// more. The name of the directory may have another number than before.
func (k *checker) dir(owner string) (found string) {
	if owner == messages.GlobalHooks {
		return k.dirs.Global
	}
	k.each(func(dir string) {
		if moduleName(dir) == owner {
			found = dir
		}
	})
	return found
}

// each calls see with the directory of each module.
func (k *checker) each(see func(dir string)) {
	for _, root := range k.dirs.Modules {
		entries, _ := os.ReadDir(root)
		for _, entry := range entries {
			if dir := filepath.Join(root, entry.Name()); cli.IsDir(dir) && entry.Name()[0] != '.' {
				see(dir)
			}
		}
	}
}

// test plays the tests of one owner, and shows each that failed, and how many there were.
func (k *checker) test(ctx context.Context, owner string) {
	dir := k.dir(owner)
	files, _ := filepath.Glob(filepath.Join(dir, "tests", "*.yaml"))
	if dir == "" || len(files) == 0 {
		return
	}
	began := time.Now()
	list, err := scenario.Find(filepath.Join(dir, "tests"))
	var results []scenario.Result
	if err == nil {
		results = scenario.Play(ctx, list, scenario.Options{JQLibrary: k.config.JQDirs(), CRDSkip: k.config.CRDPrefixes(), StepTimeout: stepLimit}, nil)
	}
	if ctx.Err() != nil {
		return
	}
	failed, about := 0, fact{about: aboutTest, module: messages.ModuleOf(owner)}
	for _, r := range results {
		if !r.Passed() {
			failed++
			about.text, about.bad = r.Scenario.Name()+" failed: "+strings.Join(r.Problems, "\n"), true
			k.show(about)
		}
	}
	about.bad = failed > 0 || err != nil
	switch n, took := view.Count(len(results), "test"), time.Since(began).Round(time.Millisecond); {
	case err != nil:
		about.text = err.Error()
	case failed > 0:
		about.text = fmt.Sprintf("%d of %s failed, in %s", failed, n, took)
	default:
		about.text = fmt.Sprintf("%s passed, in %s", n, took)
	}
	k.show(about)
}
