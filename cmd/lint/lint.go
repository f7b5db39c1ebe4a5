package lint

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/values"
)

// Options are the directories and the checks.
type Options struct {
	Dirs addons.Dirs
	// Only is the directory of the one module that is checked, or that of the global hooks; empty
	// for all.
	Only string
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

	JQLibrary []string // as hooks.Options has it
	Chroot    string   // as hooks.Options has it
	CRDSkip   []string // beginnings of names of files in crds/ that are no definitions
}

// checks is one pass over a tree, in one goroutine. load fills tree and global; definitions and
// renderAll fill kinds and rendered for all modules, and only then the checks of single modules
// run, because they ask which kinds any module brings.
type checks struct {
	Options
	tree   *addons.Tree
	kinds  *kinds
	runner *hooks.Runner
	found  *findings
	// global holds the values of global hooks on disk; nil when they cannot be read, and then no
	// chart is rendered and no enabled script runs.
	global   *values.Section
	refused  map[string]bool     // sections whose values on disk do not fit their schemas
	rendered map[string]rendered // what the charts of modules print, by the directory of the module
	played   int                 // tests
	client   *helm.Client        // that renders; nil until there is one with the kinds that are known now
}

// Check finds the mistakes below the directories, and returns them with the line that sums them up. A finding that
// may be the cause of others comes before them. It returns an error if it could not complete, such as at the end of
// ctx, and then no findings, so that a part of them is never taken for all.
func Check(ctx context.Context, o Options) (found []Finding, summary string, err error) {
	tmp, err := os.MkdirTemp("", "addon-operator-lint-")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(tmp)
	c := &checks{Options: o, kinds: newKinds(), refused: map[string]bool{}, rendered: map[string]rendered{}}
	if c.found, err = newFindings(&c.Dirs); err != nil {
		return nil, "", err
	}
	// A KUBECONFIG that names no file leaves kubectl with the account of the Pod that lint may run
	// in. So the hooks get one whose server refuses connections.
	nowhere := filepath.Join(tmp, "no-cluster")
	if err := os.WriteFile(nowhere, []byte(noCluster), 0o600); err != nil {
		return nil, "", err
	}
	c.runner, err = hooks.NewRunner(hooks.Options{
		TmpDir: tmp, Log: slog.New(slog.DiscardHandler), Timeout: o.HookLimit, Grace: time.Second, Chroot: o.Chroot, JQLibrary: o.JQLibrary,
		Env: []string{"KUBECONFIG=" + nowhere}, // no script changes a cluster
	})
	if err != nil {
		return nil, "", err
	}
	c.load()
	c.definitions()
	// Also with Only: the kinds that other modules bring decide what is unknown in this one.
	c.renderAll(ctx)
	if global := c.tree.Global; o.Only == "" || o.Only == global.Dir {
		c.hooks(ctx, global.HooksDir, "", global.Dir, hooks.Global)
		c.scenarios(ctx, global.Dir)
	}
	modules := 0
	for _, m := range slices.Concat(c.tree.Modules, c.tree.Broken) {
		if o.Only == "" || m.Dir == o.Only {
			modules++
			c.module(ctx, m)
		}
	}
	// Checks stop quietly when ctx ends, and a hook that was stopped looks like one that is slow.
	if ctx.Err() != nil {
		return nil, "", context.Cause(ctx)
	}
	found = c.found.about(o.Only)
	return found, c.summary(found, modules), nil
}

// load loads the tree and reports what loading and 'values check' find. It sets tree and global. A
// tree with errors has the files that could be read, and the other checks continue with it.
func (c *checks) load() {
	dirs := c.Dirs
	dirs.FullPaths = true // findings have the place in a file, so the file must be found
	tree, err := addons.Load(dirs)
	c.tree = tree
	c.fail(err)
	// Problems are warnings, too; check.Tree reports them as errors.
	for _, warning := range tree.Warnings {
		if !slices.Contains(tree.Problems, warning) {
			c.found.addMessage(Warning, warning)
		}
	}
	c.fail(plan.CheckTree(tree))
	// All modules count as enabled: values of disabled ones are not validated (D37), but they
	// become errors when one is enabled.
	on := map[string]string{}
	for _, m := range tree.Modules {
		on[values.FlagKey(m.Key)] = "true"
	}
	c.fail(plan.CheckConfigMap(tree, on, nil, slog.New(slog.DiscardHandler)))
	if c.global, err = values.NewSection(values.GlobalKey, tree.Global.Schemas, tree.Global.Static...); err != nil || c.refused[values.GlobalKey] {
		c.global = nil
		c.found.add(Warning, c.found.roots[0], place{}, "charts, enabled scripts and tests are not checked, because the global values are wrong")
	}
}

// fail reports all errors that err is joined from. Violations of a schema are placed one by one.
func (c *checks) fail(err error) {
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range list.Unwrap() {
			c.fail(one)
		}
		return
	}
	var wrong *values.ValidationError
	var unused plan.UnusedError
	switch {
	case err == nil:
	case errors.As(err, &wrong):
		c.violations(wrong)
	case errors.As(err, &unused):
		c.found.addMessage(Error, unused.Path+" "+unused.Reason)
	default:
		c.found.addMessage(Error, err.Error())
	}
}

// violations places each value that a schema refuses in the file that sets it, the strongest first
// (D5): the module's own values.yaml, then those of the roots, of which the last one wins. A value
// that no file sets, such as a default, is placed in the schema. A missing value is no finding: it
// may come from the ConfigMap.
func (c *checks) violations(wrong *values.ValidationError) {
	var files []string
	for _, root := range c.found.roots[:len(c.found.roots)-1] {
		files = append(files, filepath.Join(root, "values.yaml"))
	}
	for _, m := range c.tree.Modules {
		if m.Key == wrong.Section {
			files = append(files, filepath.Join(m.Dir, "values.yaml"))
		}
	}
	slices.Reverse(files)
	for _, v := range wrong.Violations {
		if v.IsMissing() {
			continue
		}
		c.refused[wrong.Section] = true
		file, at := wrong.Schema, place{}
		for _, one := range files {
			if set := c.found.yamlOf(one).at(v.Path); set != (place{}) {
				file, at = one, set
				break
			}
		}
		c.found.add(Error, file, at, v.String()+"; correct the value, or the schema "+c.found.relative(wrong.Schema))
	}
}

// section returns the values of a module on disk; nil when they are wrong or the module cannot be
// read, which load has reported.
func (c *checks) section(m addons.Module) *values.Section {
	own, err := values.NewSection(m.Key, m.Schemas, m.Static...)
	if err != nil || c.refused[m.Key] || slices.ContainsFunc(c.tree.Broken, func(b addons.Module) bool { return b.Dir == m.Dir }) {
		return nil
	}
	return own
}

// module checks of one module what loading does not: its hooks, its enabled script, its chart and
// its tests. Tests are played only after all else is without errors, because what is wrong above
// would fail each of them again, with a worse message.
func (c *checks) module(ctx context.Context, m addons.Module) {
	before := count(c.found.list, Error)
	c.hooks(ctx, m.HooksDir(), filepath.Join(m.Base, "hooks"), m.Root, hooks.Module)
	own := c.section(m)
	switch {
	case c.global == nil:
		return // load has reported it for all
	case own == nil:
		c.found.add(Warning, m.Dir, place{}, "its enabled script, its chart and its tests are not checked, because its files or values are wrong")
		return
	}
	c.enabled(ctx, m, own)
	c.look(ctx, m)
	switch {
	case count(c.found.list, Error) == before:
		c.scenarios(ctx, m.Dir)
	case c.Tests && len(testFiles(m.Dir)) > 0:
		c.found.add(Warning, filepath.Join(m.Dir, "tests"), place{}, "its tests did not run, because of the errors of the module")
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
