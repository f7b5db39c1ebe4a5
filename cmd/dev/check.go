package dev

import (
	"context"
	"errors"
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

// Lint prepares checks of directories, as lint.Repeatedly does: each checks what has changed since
// the one before. hookLimit is for --config of a hook, and for an enabled script.
type Lint func(c *cli.Config, dirs addons.Dirs, hookLimit time.Duration) (Look, error)

// Look checks one directory, or all for "", and calls report with each finding: its file, whether
// it is an error, a short form on one line, and the text that lint prints. Calls must not overlap.
type Look = func(ctx context.Context, only string, report func(file string, bad bool, line, printed string)) error

// finding is a mistake that lint has found, in both of its forms. Two findings with the same
// printed text are the same.
type finding struct {
	bad           bool // it is an error
	line, printed string
}

// checker checks what was saved: lint checks the modules of the files at once, then the tests of
// these modules are played, then lint checks all others, which may depend on them. Only the goroutine
// of run touches found.
type checker struct {
	config *cli.Config
	dirs   addons.Dirs
	only   string // module; empty for all
	lint   Look
	show   func(fact)
	// due has what waits for a check, at most one value, which check joins with what comes later.
	due   chan saved
	found map[string][]finding // what was shown last, by owner; "" for what is of none
}

// newChecker makes a checker; nothing is checked before run is called.
func newChecker(c *cli.Config, dirs addons.Dirs, only string, lint Lint, show func(fact)) (*checker, error) {
	look, err := lint(c, dirs, hookLimit)
	return &checker{config: c, dirs: dirs, only: only, lint: look, show: show, due: make(chan saved, 1), found: map[string][]finding{}}, err
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

// run checks what is due, until ctx ends. What is saved meanwhile waits, joined.
func (k *checker) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case next := <-k.due:
			k.lintSaved(ctx, next)
			for _, owner := range k.tested(next) {
				k.test(ctx, owner)
			}
			if _, all := next[""]; !all {
				k.lintAll(ctx, false, false)
			}
		}
	}
}

// tested returns the owners whose tests are due after a save: those of the files, or all when a
// file concerns all. An entry without files, the first check, plays none.
func (k *checker) tested(what saved) []string {
	if len(what[""]) > 0 {
		return k.owners()
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(what)), func(owner string) bool { return owner == "" })
}

// lintSaved checks the owners of the files that were saved, or everything when one concerns all.
func (k *checker) lintSaved(ctx context.Context, what saved) {
	if files, all := what[""]; all {
		k.lintAll(ctx, len(files) == 0, len(files) > 0)
		return
	}
	for _, owner := range slices.Sorted(maps.Keys(what)) {
		found := map[string][]finding{}
		var err error
		if dir := k.dir(owner); dir != "" { // else it is gone
			found, err = k.look(ctx, dir)
		}
		if ctx.Err() == nil {
			k.report(owner, found[owner], false, err)
		}
	}
}

// lintAll checks everything and shows what differs from before; the first time it shows all. With
// sum it also shows how many findings there are. After the end of ctx it shows nothing, because the
// result is not complete.
func (k *checker) lintAll(ctx context.Context, first, sum bool) {
	dirs := []string{""}
	if k.only != "" {
		dirs = []string{k.dirs.Global, k.dir(k.only)}
	}
	// "" would be all modules, also those next to the only one, whose directory may just be
	// renamed.
	found, err := k.look(ctx, slices.DeleteFunc(dirs, func(dir string) bool { return dir == "" && k.only != "" })...)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		k.report("", nil, first, err)
		return
	}
	n := 0
	for _, list := range found {
		n += len(list)
	}
	// Owners whose findings are gone are reported, too.
	owners := maps.Clone(found)
	maps.Copy(owners, k.found)
	for _, owner := range slices.Sorted(maps.Keys(owners)) {
		if first || !slices.Equal(found[owner], k.found[owner]) {
			k.report(owner, found[owner], first, nil)
		}
	}
	switch text := view.Count(n, "finding") + " in all modules"; {
	case first:
		k.show(fact{about: aboutLint, text: text + "; a save also runs the tests of its module"})
	case sum:
		k.show(fact{about: aboutLint, text: text})
	}
}

// report shows which findings of an owner are new and which are gone, and keeps them. Without either
// it still shows that lint has run: the author waits for an answer to the save. After an error
// nothing was looked at, so the earlier findings remain.
func (k *checker) report(owner string, found []finding, first bool, err error) {
	about := fact{about: aboutLint, module: messages.ModuleOf(owner)}
	if err != nil {
		about.text, about.bad = err.Error(), true
		k.show(about)
		return
	}
	was, quiet := k.found[owner], !first
	k.found[owner] = found
	if len(found) == 0 {
		delete(k.found, owner)
	}
	has := func(all []finding, one finding) bool {
		return slices.ContainsFunc(all, func(f finding) bool { return f.printed == one.printed })
	}
	for _, f := range found {
		if first || !has(was, f) {
			about.text, about.bad, quiet = f.printed, f.bad, false
			k.show(about)
		}
	}
	about.bad = false
	for _, f := range was {
		if !has(found, f) {
			about.text, quiet = "no longer reported: "+f.line, false
			k.show(about)
		}
	}
	if about.text = "no findings"; len(found) > 0 {
		about.text = view.Count(len(found), "finding") + ", unchanged"
	}
	if quiet {
		k.show(about)
	}
}

// look calls lint for some directories, "" for all, and sorts the findings by owner.
func (k *checker) look(ctx context.Context, dirs ...string) (found map[string][]finding, _ error) {
	found = map[string][]finding{}
	var errs []error
	report := func(file string, bad bool, line, printed string) {
		path, err := filepath.Abs(file)
		owner := k.owner(path)
		found[owner], errs = append(found[owner], finding{bad, line, printed}), append(errs, err)
	}
	for _, dir := range dirs {
		errs = append(errs, k.lint(ctx, dir, report))
	}
	return found, errors.Join(errs...)
}

// owner returns the module of a file, or messages.GlobalHooks; "" for a file of no module, such as
// the values.yaml of all.
func (k *checker) owner(path string) string {
	for _, root := range k.dirs.Modules {
		below, err := filepath.Rel(root, path)
		dir, _, _ := strings.Cut(below, string(filepath.Separator))
		if err == nil && below != "." && filepath.IsLocal(below) && cli.IsDir(filepath.Join(root, dir)) {
			return moduleName(dir)
		}
	}
	if below, err := filepath.Rel(k.dirs.Global, path); err == nil && filepath.IsLocal(below) {
		return messages.GlobalHooks
	}
	return ""
}

// owners returns all modules on disk and the global hooks, with or without tests.
func (k *checker) owners() []string {
	owners := []string{messages.GlobalHooks}
	if k.only != "" {
		return append(owners, k.only)
	}
	for _, root := range k.dirs.Modules {
		entries, _ := os.ReadDir(root)
		for _, entry := range entries {
			if cli.IsDir(filepath.Join(root, entry.Name())) && entry.Name()[0] != '.' {
				owners = append(owners, moduleName(entry.Name()))
			}
		}
	}
	return owners
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
			if moduleName(entry.Name()) == owner {
				return filepath.Join(root, entry.Name())
			}
		}
	}
	return ""
}

// test plays the tests of one owner, and shows each that failed, and how many there were.
func (k *checker) test(ctx context.Context, owner string) {
	dir := k.dir(owner)
	files, _ := filepath.Glob(filepath.Join(dir, "tests", "*.yaml"))
	if dir == "" || len(files) == 0 {
		return // lint reports it
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
			about.text, about.detail, about.bad = r.Scenario.Name()+" failed: "+r.Problems[0], r.Problems[1:], true
			k.show(about)
		}
	}
	about.detail, about.bad = nil, failed > 0 || err != nil
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
