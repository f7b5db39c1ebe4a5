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

// linted is the result of lint for one module; "" for findings in files that belong to no module.
// first marks the first check of the session, whose findings are all new. With err nothing was
// checked.
type linted struct {
	module string
	found  []finding
	first  bool
	err    error
}

// tested is the result of the tests of a module. With err they were not played.
type tested struct {
	module  string
	results []scenario.Result
	took    time.Duration
	err     error
}

// checker checks what was saved: lint checks the modules of the files at once, then the tests of
// these modules are played, then lint checks all others, which may depend on them. Results are
// posted to the session. One goroutine at a time touches found: that of run, or the one that run
// waits for.
type checker struct {
	config *cli.Config
	dirs   addons.Dirs
	only   string // module; empty for all
	lint   Look
	post   func(any)
	// due has what waits for a check, at most one value, which check joins with what comes later.
	due   chan saved
	found map[string][]finding // what was posted last, by owner; "" for what is of none
}

// newChecker makes a checker; nothing is checked before run is called. post must not block.
func newChecker(c *cli.Config, dirs addons.Dirs, only string, lint Lint, post func(any)) (*checker, error) {
	look, err := lint(c, dirs, hookLimit)
	return &checker{config: c, dirs: dirs, only: only, lint: look, post: post, due: make(chan saved, 1), found: map[string][]finding{}}, err
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

// run checks what is due, until ctx ends. A save interrupts the tests and what comes after them,
// because the findings about the new files are more urgent; but not twice in a row, so that tests
// end however often something is saved. Tests that were interrupted are played the next time.
func (k *checker) run(ctx context.Context) {
	untested := map[string]bool{}
	interrupted := false
	var next saved
	for {
		if next == nil {
			select {
			case <-ctx.Done():
				return
			case next = <-k.due:
			}
		}
		k.lintSaved(ctx, next)
		maps.Copy(untested, k.tested(next))
		next = nil
		// The tests get a context of their own, which the next save ends.
		one, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			k.rest(one, untested)
		}()
		// A nil channel is never ready: what is due waits until the tests are over.
		due := k.due
		if interrupted {
			due = nil
		}
		select {
		case <-done:
			interrupted = false
		case next = <-due:
			interrupted = true
			cancel()
			<-done
		}
		cancel()
		if ctx.Err() != nil {
			return
		}
	}
}

// tested returns the owners whose tests are due after a save: those of the files, or all when a
// file concerns all. An entry without files, the first check, plays none.
func (k *checker) tested(what saved) map[string]bool {
	owners := map[string]bool{}
	for owner := range what {
		owners[owner] = owner != ""
	}
	if len(what[""]) > 0 {
		for _, owner := range k.owners() {
			owners[owner] = true
		}
	}
	delete(owners, "")
	return owners
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

// rest plays the tests that are due, and removes the owners whose tests have ended from untested.
// Then it checks everything, since other modules may depend on what was saved.
func (k *checker) rest(ctx context.Context, untested map[string]bool) {
	for _, owner := range slices.Sorted(maps.Keys(untested)) {
		k.test(ctx, owner)
		if ctx.Err() != nil {
			return
		}
		delete(untested, owner)
	}
	k.lintAll(ctx, false, false)
}

// lintAll checks everything and posts what differs from before; the first time it posts all. With
// sum it also posts how many findings there are. After the end of ctx it posts nothing, because the
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
		k.post(linted{"", nil, first, err})
		return
	}
	n := 0
	for _, list := range found {
		n += len(list)
	}
	// Owners whose findings are gone are posted, too.
	owners := maps.Clone(found)
	maps.Copy(owners, k.found)
	for _, owner := range slices.Sorted(maps.Keys(owners)) {
		if first || !slices.Equal(found[owner], k.found[owner]) {
			k.report(owner, found[owner], first, nil)
		}
	}
	switch text := view.Count(n, "finding") + " in all modules"; {
	case first:
		k.post(newFact(aboutLint, "", text+"; a save also runs the tests of its module"))
	case sum:
		k.post(newFact(aboutLint, "", text))
	}
}

// report posts the findings of an owner, and keeps them, for the comparison with the next ones. After an
// error the earlier findings remain.
func (k *checker) report(owner string, found []finding, first bool, err error) {
	if err == nil {
		k.found[owner] = found
		if len(found) == 0 {
			delete(k.found, owner)
		}
	}
	k.post(linted{owner, found, first, err})
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

// test plays the tests of one owner, and posts the result unless ctx has ended.
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
	if ctx.Err() == nil {
		k.post(tested{owner, results, time.Since(began), err})
	}
}

// facts has one fact for each test that failed, and one for all.
func (t tested) facts() (facts []fact) {
	failed := 0
	for _, r := range t.results {
		if !r.Passed() {
			failed++
			facts = append(facts, newFact(aboutTest, t.module, r.Scenario.Name()+" failed: "+r.Problems[0], r.Problems[1:]...).bad())
		}
	}
	took := t.took.Round(time.Millisecond)
	switch n := len(t.results); {
	case t.err != nil:
		facts = append(facts, newFact(aboutTest, t.module, t.err.Error()).bad())
	case failed > 0:
		facts = append(facts, newFact(aboutTest, t.module, fmt.Sprintf("%d of %s failed, in %s", failed, view.Count(n, "test"), took)).bad())
	default:
		facts = append(facts, newFact(aboutTest, t.module, fmt.Sprintf("%s passed, in %s", view.Count(n, "test"), took)))
	}
	return facts
}
