package lint

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/kube/builtin"
	"addon-operator/values"
)

// Options say what is checked.
type Options struct {
	Dirs addons.Dirs
	// Only is the directory of the one module that is checked, or that of the global hooks; empty for all.
	Only string
	// Release is the version of Kubernetes that the modules are for.
	Release builtin.Release
	// Values are merged over those on disk before charts are rendered: what hooks would find out.
	Values []any
	// Tests of modules are played, too.
	Tests bool
	// HookLimit is how long one hook may take to answer --config, and an enabled script to answer at all.
	HookLimit time.Duration
	// StepTimeout is how long the operator may take until it is idle after a step of a test; 0: a minute.
	StepTimeout time.Duration

	// Memory is that of the last check of these directories with these options; nil: everything is looked at.
	Memory *Memory

	// From also looks for what the existing addon-operator takes in another way, and leaves other warnings out; nil: it does not.
	From *Migration

	JQLibrary []string // as hooks.Options has it
	Chroot    string   // as hooks.Options has it
	CRDSkip   []string // beginnings of names of files in crds/ that are no definitions
}

// checks are the checks of one pass over a tree.
type checks struct{ *pass }

// pass is what is known of the tree in one pass over it.
type pass struct {
	Options
	tree   *addons.Tree
	kinds  *kinds
	runner *hooks.Runner
	found  *findings
	global *values.Section
	// documents are what the charts of modules print, by their directories.
	documents map[string][]helm.Document
	client    *helm.Client // that renders; nil until there is one with the kinds that are known now
	// For Memory:
	stamps  map[string]string // of directories, as they were before anything was read
	common  string            // what each module depends on
	passing bool              // what was found in the directory at hand may be gone although its files are as they were
}

// Check finds the mistakes below the directories, and returns how many modules there are. The error says why it could not look.
func Check(ctx context.Context, o Options) (found []Finding, modules int, err error) {
	tmp, err := os.MkdirTemp("", "addon-operator-lint-")
	if err != nil {
		return nil, 0, err
	}
	defer os.RemoveAll(tmp)
	o.Memory = cmp.Or(o.Memory, &Memory{})
	c := &checks{&pass{Options: o, kinds: newKinds(o.Release), documents: map[string][]helm.Document{}}}
	if c.found, err = newFindings(o.Dirs); err != nil {
		return nil, 0, err
	}
	// A file that is not there would leave kubectl with the account of the Pod that lint may run in.
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
	c.stamp()
	c.load()
	o.Memory.forget(c.tree)
	c.found.links()
	c.depends()
	c.definitions()
	c.renderAll(ctx)
	if global := c.tree.Global; o.Only == "" || o.Only == global.Dir {
		c.once(ctx, global.Dir, nil, func() {
			c.hooks(ctx, global.HooksDir, "", global.Dir, hooks.Global)
			c.scenarios(ctx, global.Dir, "")
		})
	}
	for _, m := range append(append([]addons.Module{}, c.tree.Modules...), c.tree.Broken...) {
		if o.Only == "" || m.Dir == o.Only {
			own := c.section(m)
			c.once(ctx, m.Dir, own, func() { c.module(ctx, m, own) })
		}
	}
	if ctx.Err() != nil {
		return nil, 0, context.Cause(ctx)
	}
	var outside []Finding
	if o.From != nil {
		outside = c.migrate(*o.From)
	}
	return sorted(append(c.found.about(o.Only), outside...)), len(c.tree.Modules) + len(c.tree.Broken), nil
}

// module checks all of one module that loading does not.
func (c *checks) module(ctx context.Context, m addons.Module, own *values.Section) {
	before := count(c.found.list, Error)
	c.hooks(ctx, m.HooksDir(), filepath.Join(m.Base, "hooks"), m.Root, hooks.Module)
	if own == nil || c.global == nil {
		return // loading says why
	}
	c.enabled(ctx, m, own)
	chartCheck{c.pass, m, own}.look(ctx)
	if count(c.found.list, Error) == before {
		c.scenarios(ctx, m.Dir, m.Name)
	}
}

// noCluster is a kubeconfig whose server does not answer.
const noCluster = `apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: none, user: {token: none}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
current-context: none
`
