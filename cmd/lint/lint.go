package lint

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/kube/builtin"
	"addon-operator/values"
)

// Options are the directories and the checks.
type Options struct {
	Dirs addons.Dirs
	// Only is the directory of the one module that is checked, or that of the global hooks; empty
	// for all.
	Only string
	// Release is the version of Kubernetes that the modules are for: it decides which kinds,
	// versions and fields exist.
	Release builtin.Release
	// Values are merged over those on disk before charts are rendered, in this order. They stand
	// for what hooks set at run time. Each is a tree with the sections as keys.
	Values []any
	// Tests of modules are played, too.
	Tests bool
	// HookLimit is how long one hook may take to answer --config, and an enabled script to answer
	// at all. The runner ends --config after [hooks.ConfigLimit] in any case.
	HookLimit time.Duration
	// StepTimeout is how long the operator may take until it is idle after a step of a test; 0: a
	// minute.
	StepTimeout time.Duration

	// Memory holds the results of the last check of these directories with these options, and is
	// updated; nil: everything is checked.
	Memory *Memory

	JQLibrary []string // as hooks.Options has it
	Chroot    string   // as hooks.Options has it
	CRDSkip   []string // beginnings of names of files in crds/ that are no definitions
}

// checks is one pass over a tree, in one goroutine. load fills tree and global; definitions and
// renderAll fill kinds and documents for all modules, and only then the checks of single modules
// run, because they ask which kinds any module brings.
type checks struct {
	Options
	tree   *addons.Tree
	kinds  *kinds
	runner *hooks.Runner
	found  *findings
	// global holds the values of global hooks on disk; nil when they cannot be read, and then no
	// chart is rendered and no enabled script runs.
	global *values.Section
	// documents are what the charts of modules print, by the directory of the module. A module
	// whose chart does not render has none; its error is a finding already.
	documents map[string][]helm.Document
	client    *helm.Client // that renders; nil until there is one with the kinds that are known now
	// For Memory:
	stamps  map[string]string // of directories, as they were before anything was read
	common  string            // what each module depends on
	passing bool              // what was found in the directory at hand may be gone although its files are as they were
}

// Check finds the mistakes below the directories, and returns the number of modules, with those
// that cannot be loaded. It returns an error if it could not complete, such as at the end of ctx, and then
// no findings, so that a part of them is never taken for all.
func Check(ctx context.Context, o Options) (found []Finding, modules int, err error) {
	tmp, err := os.MkdirTemp("", "addon-operator-lint-")
	if err != nil {
		return nil, 0, err
	}
	defer os.RemoveAll(tmp)
	o.Memory = cmp.Or(o.Memory, &Memory{})
	c := &checks{Options: o, kinds: newKinds(o.Release), documents: map[string][]helm.Document{}}
	if c.found, err = newFindings(o.Dirs); err != nil {
		return nil, 0, err
	}
	// A KUBECONFIG that names no file leaves kubectl with the account of the Pod that lint may run
	// in. So the hooks get one whose server refuses connections.
	nowhere := filepath.Join(tmp, "no-cluster")
	if err := os.WriteFile(nowhere, []byte(noCluster), 0o600); err != nil {
		return nil, 0, err
	}
	c.runner, err = hooks.NewRunner(hooks.Options{
		TmpDir: tmp, Log: slog.New(slog.DiscardHandler), Timeout: o.HookLimit, Grace: time.Second, Chroot: o.Chroot, JQLibrary: o.JQLibrary,
		Env: []string{"KUBECONFIG=" + nowhere}, // no script changes a cluster
	})
	if err != nil {
		return nil, 0, err
	}
	// Before load: what is saved while lint reads must not count as checked.
	c.stamp()
	c.load()
	o.Memory.forget(c.tree)
	c.found.links()
	c.depends()
	c.definitions()
	// Also with Only: the kinds that other modules bring decide what is unknown in this one.
	c.renderAll(ctx)
	if global := c.tree.Global; o.Only == "" || o.Only == global.Dir {
		c.once(ctx, global.Dir, nil, func() {
			c.hooks(ctx, global.HooksDir, "", global.Dir, hooks.Global)
			c.scenarios(ctx, global.Dir, "")
		})
	}
	for _, m := range slices.Concat(c.tree.Modules, c.tree.Broken) {
		if o.Only == "" || m.Dir == o.Only {
			own := c.section(m)
			c.once(ctx, m.Dir, own, func() { c.module(ctx, m, own) })
		}
	}
	// Checks stop quietly when ctx ends, and a hook that was stopped looks like one that is slow.
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	return sorted(c.found.about(o.Only)), len(c.tree.Modules) + len(c.tree.Broken), nil
}

// module checks of one module what loading does not: its hooks, its enabled script, its chart and
// its tests. own is nil for a module whose values cannot be read; then only its hooks are checked.
// Tests are played only after all else is without errors, because what is wrong above would fail
// each of them again, with a worse message.
func (c *checks) module(ctx context.Context, m addons.Module, own *values.Section) {
	before := count(c.found.list, Error)
	c.hooks(ctx, m.HooksDir(), filepath.Join(m.Base, "hooks"), m.Root, hooks.Module)
	if own == nil || c.global == nil {
		return // loading reports the reason
	}
	c.enabled(ctx, m, own)
	chartCheck{c, m, own}.look(ctx)
	if count(c.found.list, Error) == before {
		c.scenarios(ctx, m.Dir, m.Name)
	}
}

// noCluster is a kubeconfig whose server refuses connections: nothing listens on port 1.
const noCluster = `apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: none, user: {token: none}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
current-context: none
`
