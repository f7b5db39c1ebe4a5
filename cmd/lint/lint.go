package lint

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/cmd/cli"
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
	// Problems are warnings, too; plan.CheckTree reports them as errors.
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
	_, err = plan.CheckConfigMap(tree, on, nil, slog.New(slog.DiscardHandler))
	c.fail(err)
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

// flags are the options of the command, as they were given. run turns them into [Options].
type flags struct {
	output        string
	values        []string
	strict, tests bool
}

// Command returns the command lint. It returns an error if the check could not run; mistakes that were
// found are output, and end the program with code 1 ([cli.ExitError]).
func Command(c *cli.Config) *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use: "lint [DIR]", Short: "Find mistakes in modules without a cluster, each with its file and line",
		Long: `Finds mistakes that can be found without a cluster: the errors of loading, of 'values check', of --config
of hooks, of rendering and of the tests of modules, and kinds, versions and fields that Kubernetes does not have.
Each finding is a line with its file, its position and a fix. A cause comes before what follows from it.

DIR contains modules/ and global-hooks/, or modules, or is one module. Without DIR the directories of the options
are checked, or else the current one. Hooks run with --config, enabled scripts run with the values on disk, and
tests run; kubectl in them has no cluster.

The exit code is 1 if there is an error, or with --strict a warning, and 0 otherwise.`,
		Example: "  addon-operator lint\n  addon-operator lint modules/010-dns --values hooks.yaml\n  addon-operator lint -o github",
		Args:    cli.Arguments("[DIR]"),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, c, args) },
	}
	set := cmd.Flags()
	set.StringVarP(&f.output, "output", "o", "text", "format: text, json or github (annotations of a workflow)")
	set.StringArrayVar(&f.values, "values", nil, "file with values that hooks would set, such as {global: {…}}; can be given several times")
	set.BoolVar(&f.strict, "strict", false, "also fail on warnings")
	set.BoolVar(&f.tests, "tests", true, "also run the tests of modules")
	return cmd
}

// run checks all options before it looks at a module: hooks of a large tree may run for minutes,
// and a misspelt option must not fail after them.
func (f *flags) run(cmd *cobra.Command, c *cli.Config, args []string) error {
	if !slices.Contains([]string{"text", "json", "github"}, f.output) {
		return cli.Usagef("--output: %q is not text, json or github", f.output)
	}
	o := optionsOf(c)
	o.Tests = f.tests
	var err error
	if o.Values, err = cli.ReadValues(f.values); err != nil {
		return err
	}
	only, done, err := c.UseDirectory(args)
	if err != nil {
		return err
	}
	defer done()
	o.Dirs, o.Only = c.Dirs, only
	found, summary, err := Check(cmd.Context(), o)
	if err != nil {
		return err
	}
	if err := write(cmd.OutOrStdout(), f.output, found, summary); err != nil {
		return err
	}
	// The findings are the output. ExitError sets the code without printing another message.
	if count(found, Error) > 0 || f.strict && len(found) > 0 {
		return cli.ExitError(1)
	}
	return nil
}

func optionsOf(c *cli.Config) Options {
	// A hook that answers later would not be loaded by the operator.
	return Options{HookLimit: hooks.ConfigLimit, JQLibrary: c.JQDirs(), Chroot: c.ChrootDir, CRDSkip: c.CRDPrefixes()}
}

// Look checks for 'dev' the directory of one module or of the global hooks, or all for "", with or without tests. It
// calls report with each finding: whether it is an error, and the line that the command prints; and returns the last
// line. When it returns an error it has reported nothing.
func Look(ctx context.Context, c *cli.Config, dirs addons.Dirs, only string, tests bool, report func(bad bool, line string)) (summary string, err error) {
	o := optionsOf(c)
	o.Dirs, o.Only, o.Tests = dirs, only, tests
	found, summary, err := Check(ctx, o)
	for _, f := range found {
		report(f.Severity == Error, f.String())
	}
	return summary, err
}
