package dev

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"addon-operator/actors/scenario"
	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/cmd/lint"
	"addon-operator/kube/builtin"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// limits of what runs on each save
const (
	hookLimit = 10 * time.Second // of --config and of an enabled script
	stepLimit = time.Minute      // of a step of a test
)

// linted is what lint has found in a module; first: no one has saved a file yet.
type linted struct {
	module string
	found  []lint.Finding
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

// checker looks at what was saved. What comes meanwhile ends the check that is in progress, and is checked with it.
type checker struct {
	dirs    addons.Dirs
	only    string // module; empty for all
	options lint.Options
	post    func(any)
	due     chan saved
}

func newChecker(c *cli.Config, dirs addons.Dirs, only string, post func(any)) (*checker, error) {
	release, err := builtin.ParseRelease(builtin.Newest)
	if err != nil {
		return nil, err
	}
	return &checker{
		dirs: dirs, only: only, post: post, due: make(chan saved, 1),
		options: lint.Options{Dirs: dirs, Release: release, HookLimit: hookLimit, JQLibrary: c.JQDirs(), Chroot: c.ChrootDir, CRDSkip: c.CRDPrefixes()},
	}, nil
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

// run checks what is due, until ctx ends. all: begin with all modules.
func (k *checker) run(ctx context.Context) {
	pending := saved{}
	for {
		select {
		case <-ctx.Done():
			return
		case more := <-k.due:
			pending = joined(pending, more)
		}
		for len(pending) > 0 && ctx.Err() == nil {
			one, cancel := context.WithCancel(ctx)
			done := make(chan struct{})
			go func() {
				defer close(done)
				k.one(one, pending)
			}()
			select {
			case <-done:
				pending = saved{}
			case more := <-k.due:
				cancel()
				<-done
				pending = joined(pending, more)
			}
			cancel()
		}
	}
}

// one lints the modules, and then plays their tests. Without a file it lints all of them, and plays none.
func (k *checker) one(ctx context.Context, what saved) {
	files, all := what[""]
	first := all && len(what) == 1 && len(files) == 0
	owners := slices.Sorted(maps.Keys(what))
	if all {
		owners = k.owners()
	}
	findings := 0
	for _, owner := range owners {
		found, err := k.lint(ctx, owner)
		if ctx.Err() != nil {
			return
		}
		findings += len(found)
		k.post(linted{owner, found, first, err})
	}
	if first {
		k.post(newFact(aboutLint, "", view.Count(findings, "finding")+" in all modules; a save plays the tests of its module, too"))
		return
	}
	for _, owner := range owners {
		k.test(ctx, owner)
	}
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
			if info, err := os.Stat(filepath.Join(root, entry.Name())); err == nil && info.IsDir() && entry.Name()[0] != '.' {
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

// lint looks at one module. Of the global hooks it has what lies in their directory.
func (k *checker) lint(ctx context.Context, owner string) ([]lint.Finding, error) {
	dir := k.dir(owner)
	if dir == "" {
		return nil, nil
	}
	o := k.options
	if owner != messages.GlobalHooks {
		o.Only = dir
	}
	found, _, err := lint.Check(ctx, o)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(f lint.Finding) bool {
		path, err := filepath.Abs(f.Path)
		below, errRel := filepath.Rel(dir, path)
		return err != nil || errRel != nil || !filepath.IsLocal(below)
	}), nil
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
		results = scenario.Play(ctx, list, scenario.Options{JQLibrary: k.options.JQLibrary, CRDSkip: k.options.CRDSkip, StepTimeout: stepLimit}, nil)
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
