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

// limits of what runs on each save
const (
	hookLimit = 10 * time.Second // of --config and of an enabled script
	stepLimit = time.Minute      // of a step of a test
)

// Lint prepares looks at directories, each at what has changed since the one before.
type Lint func(c *cli.Config, dirs addons.Dirs, hookLimit time.Duration) (Look, error)

// Look looks at one directory, at "" for all, and calls tell with each finding: its file, whether it is an error, the finding on
// one line, and as it is printed.
type Look = func(ctx context.Context, only string, tell func(file string, bad bool, line, printed string)) error

// finding is a mistake that lint has found, on one line, and as it is printed.
type finding struct {
	bad           bool // it is an error
	line, printed string
}

// linted is what lint has found in a module; first: no one has saved a file yet.
type linted struct {
	module string
	found  []finding
	first  bool
	err    error
}

// tested are the tests of a module.
type tested struct {
	module  string
	results []scenario.Result
	took    time.Duration
	err     error
}

// checker looks at what was saved: first lint at the modules of the files, then their tests, then lint at all others, which may
// depend on them.
type checker struct {
	config *cli.Config
	dirs   addons.Dirs
	only   string // module; empty for all
	lint   Look
	post   func(any)
	due    chan saved
	found  map[string][]finding // what was posted last, by owner; "" for what is of none
}

func newChecker(c *cli.Config, dirs addons.Dirs, only string, lint Lint, post func(any)) (*checker, error) {
	look, err := lint(c, dirs, hookLimit)
	return &checker{config: c, dirs: dirs, only: only, lint: look, post: post, due: make(chan saved, 1), found: map[string][]finding{}}, err
}

// check asks for a check of what was saved.
func (k *checker) check(what saved) {
	for {
		select {
		case k.due <- what:
			return
		case waiting := <-k.due:
			what = joined(waiting, what)
		}
	}
}

func joined(a, b saved) saved {
	all := maps.Clone(a)
	for owner, files := range b {
		all[owner] = append(slices.Clone(all[owner]), files...)
	}
	return all
}

// run checks what is due, until ctx ends. What is saved meanwhile interrupts the tests and what comes after them, to be looked
// at before; but not twice in a row, so that they end however often something is saved.
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
		one, cancel := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			k.rest(one, untested)
		}()
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

// tested are the owners whose tests are to be played after a save; without a file there are none.
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

// lintSaved looks at what was saved. Without a file it looks at all for the first time.
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
			k.tell(owner, found[owner], false, err)
		}
	}
}

// rest plays the tests that are due, and looks at what depends on what was saved.
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

// lintAll looks at everything, and tells what is different; the first time all of it. sum: it also says how much there is.
func (k *checker) lintAll(ctx context.Context, first, sum bool) {
	dirs := []string{""}
	if k.only != "" {
		dirs = []string{k.dirs.Global, k.dir(k.only)}
	}
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
	owners := maps.Clone(found)
	maps.Copy(owners, k.found)
	for _, owner := range slices.Sorted(maps.Keys(owners)) {
		if first || !slices.Equal(found[owner], k.found[owner]) {
			k.tell(owner, found[owner], first, nil)
		}
	}
	switch text := view.Count(n, "finding") + " in all modules"; {
	case first:
		k.post(newFact(aboutLint, "", text+"; a save plays the tests of its module, too"))
	case sum:
		k.post(newFact(aboutLint, "", text))
	}
}

// tell posts what was found of an owner.
func (k *checker) tell(owner string, found []finding, first bool, err error) {
	if err == nil {
		k.found[owner] = found
		if len(found) == 0 {
			delete(k.found, owner)
		}
	}
	k.post(linted{owner, found, first, err})
}

// look has what lint finds in directories, "" for all, by owner.
func (k *checker) look(ctx context.Context, dirs ...string) (found map[string][]finding, _ error) {
	found = map[string][]finding{}
	var errs []error
	tell := func(file string, bad bool, line, printed string) {
		path, err := filepath.Abs(file)
		owner := k.owner(path)
		found[owner], errs = append(found[owner], finding{bad, line, printed}), append(errs, err)
	}
	for _, dir := range dirs {
		errs = append(errs, k.lint(ctx, dir, tell))
	}
	return found, errors.Join(errs...)
}

// owner is the module of a file, or the global hooks; "" for none.
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

// owners are all modules and the global hooks.
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

// dir is the directory of a module, or of the global hooks; empty when it is gone.
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

// test plays the tests of one module.
func (k *checker) test(ctx context.Context, owner string) {
	dir := k.dir(owner)
	files, _ := filepath.Glob(filepath.Join(dir, "tests", "*.yaml"))
	if dir == "" || len(files) == 0 {
		return // lint says so
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

// facts say how the tests ended.
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
