package rbac

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/kube/apiserver"
	"addon-operator/values"
)

// rbacOptions are the flags of 'rbac generate'.
type rbacOptions struct {
	account, name string
	output        string
	values        []string
	offline       bool
	watch         bool
	partial       bool
}

// Command returns the command rbac, for questions about permissions.
func Command(c *cli.Config) *cobra.Command {
	cmd := cli.Group("rbac", "Determine which permissions the operator needs")
	var o rbacOptions
	generate := &cobra.Command{
		Use: "generate [DIR]", Short: "Print minimal roles for the modules and global hooks on disk",
		Long: `Prints roles and bindings for the ServiceAccount of the operator: what it needs itself, what the kubernetes
bindings of hooks watch (each hook runs with --config), and what the charts of modules create (each is rendered
with the values on disk, and again with each file of --values). Comments give the reason for each rule; rules with
a * are listed at the top. If a hook or a chart fails, no rules are printed, because an incomplete set would remove
permissions; --partial prints the others. Nothing is written to a cluster; the kinds of that of the kubeconfig are used.
DIR contains modules/ and global-hooks/, or modules. Without it the directories of the options are used, or else
the current one.`,
		Example: "  addon-operator rbac generate | kubectl apply -f -\n  addon-operator rbac generate ~/add-ons",
		Args:    cli.OneDirectory,
		RunE: func(cmd *cobra.Command, args []string) error {
			_, done, err := c.UseDirectory(args)
			if err != nil {
				return err
			}
			defer done()
			return generateRBAC(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), c, o)
		},
	}
	flags := generate.Flags()
	flags.StringVar(&o.account, "service-account", "addon-operator", "ServiceAccount of the operator")
	flags.StringVar(&o.name, "name", "addon-operator-modules", "name of the roles")
	flags.StringVarP(&o.output, "output", "o", "yaml", "format: yaml")
	flags.StringArrayVar(&o.values, "values", nil, "file with values that hooks would set, such as {global: {…}}; can be given several times")
	flags.BoolVar(&o.offline, "offline", false, "use only the built-in kinds of Kubernetes, even if there is a kubeconfig")
	flags.BoolVar(&o.watch, "watch-charts", false, "also allow the operator to watch the kinds of charts in the whole cluster, to detect deleted objects at once instead of within a minute")
	flags.BoolVar(&o.partial, "partial", false, "if hooks or charts fail, print the rules of all others for review; the command still fails")
	cmd.AddCommand(generate)
	return cmd
}

// generator collects demands from the modules and hooks of one tree, in one goroutine.
type generator struct {
	config  *cli.Config
	options rbacOptions
	tree    *addons.Tree
	runner  *hooks.Runner
	// extra has the values of each file of --values. Each is tried on its own: a chart may make
	// other objects.
	extra   []any
	demands []demand

	// cluster has the kinds of the cluster, or of Kubernetes, and those that modules bring, as far
	// as they were found: addDefinition adds to it.
	cluster kube.Discovery
	kinds   *kube.Client // resolves words by what it serves
	// chart returns a client of Helm for the releases of a namespace, "" for that of the operator.
	// It applies charts to the API server in memory that serve has made last.
	chart func(namespace string) (*helm.Client, error)

	// unread names the definitions of modules that could not be read. The rules are then incomplete.
	unread error
	// review sets these while Helm works on a chart; module takes them out after each chart, so
	// that nothing is attributed to the next one.
	record  string              // the last release record; "": none
	lookups []apiserver.Request // lookups of the templates of the last chart
}

// generateRBAC prints the roles for all modules and global hooks. When one of them fails, it returns
// an error, and prints none unless --partial is given: the output is often piped to kubectl, and
// fewer rules would take rights from a running operator.
func generateRBAC(ctx context.Context, out, warnings io.Writer, c *cli.Config, o rbacOptions) error {
	if o.output != "yaml" {
		return cli.Usagef("output: %q is not yaml", o.output)
	}
	c.Namespace = cmp.Or(c.Namespace, "addon-operator")
	tmp, err := os.MkdirTemp("", "addon-operator-rbac-")
	if err != nil {
		return fmt.Errorf("temporary directory: %w", err)
	}
	defer os.RemoveAll(tmp)
	g, err := newGenerator(ctx, c, o, tmp)
	if err != nil {
		return err
	}
	for _, warning := range g.tree.Warnings {
		fmt.Fprintln(warnings, "warning:", warning)
	}
	for _, gv := range g.cluster.Away {
		fmt.Fprintf(warnings, "warning: the kinds of %s are unknown, because APIService %s.%s is not available: rules for them may be missing\n", gv, gv.Version, gv.Group)
	}
	g.demands = append(g.demands, baseDemands(c)...)
	if c.SecureMetrics {
		g.demands = append(g.demands, reviewDemands()...)
	}
	// Every part is tried, and each failure is named: the author should not have to run this once
	// for each.
	errs := []error{g.unread, g.hooks(ctx, "global hook", g.tree.Global.HooksDir, "", g.tree.Global.Dir, hooks.Global)}
	for _, m := range g.tree.Modules {
		errs = append(errs, g.hooks(ctx, "hook", m.HooksDir(), filepath.Join(m.Base, "hooks"), m.Root, hooks.Module), g.module(ctx, m))
	}
	if ctx.Err() != nil { // what was not asked is not named
		return context.Cause(ctx)
	}
	err = errors.Join(errs...)
	if err != nil && !o.partial { // kubectl behind a pipe would apply them
		return fmt.Errorf("the rules are incomplete, so none are printed; --partial prints the rules of all others: %w", err)
	}
	if err := (manifest{o.name, c.Namespace, o.account, texts(err)}).write(out, roles(g.demands)); err != nil {
		return err
	}
	if err != nil {
		return fmt.Errorf("the rules are incomplete: %w", err)
	}
	return nil
}

// texts splits an error that was joined into lines, for comments in the output.
func texts(err error) (all []string) {
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

// newGenerator loads the modules and the values of --values, and learns all kinds. A tree that an
// operator would refuse is an error here, too.
func newGenerator(ctx context.Context, c *cli.Config, o rbacOptions, tmp string) (*generator, error) {
	tree, err := addons.Load(c.Dirs)
	if err != nil {
		return nil, err
	}
	g := &generator{config: c, options: o, tree: tree}
	g.runner, err = hooks.NewRunner(hooks.Options{TmpDir: tmp, Log: slog.New(slog.DiscardHandler), Timeout: c.HookTimeout, Chroot: c.ChrootDir, JQLibrary: c.JQDirs()})
	if err != nil {
		return nil, err
	}
	if g.extra, err = cli.ReadValues(o.values); err != nil {
		return nil, err
	}
	return g, g.serveHelm(ctx)
}

// withoutCluster reports whether only the kinds of Kubernetes itself are known, and those of
// modules.
func (g *generator) withoutCluster() bool {
	return g.options.offline || g.config.Kubeconfig == ""
}

// hooks adds the kinds that the kubernetes bindings of a directory of hooks watch. It continues after a hook
// that fails, so that all failures are named at once.
func (g *generator) hooks(ctx context.Context, what, dir, prefix, workingDir string, scope hooks.Scope) error {
	files, _, err := hooks.Find(dir, prefix, scope)
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		found, err := g.runner.Configure(ctx, file, workingDir, scope)
		errs = append(errs, err)
		for _, hook := range found {
			for _, b := range hook.Config.Kubernetes {
				errs = append(errs, g.binding(ctx, b, fmt.Sprintf("%s %s watches (binding %s)", what, hook.Name, b.Name)))
			}
		}
	}
	return errors.Join(errs...)
}

// binding adds the right to watch what a binding selects: in its namespaces, or in the whole
// cluster when it names none. Namespaces that are selected by labels are known only at run time, so
// these need the whole cluster, and the right to watch namespaces.
func (g *generator) binding(ctx context.Context, b hooks.KubernetesBinding, why string) error {
	found, namespaced, err := g.kinds.FindKind(ctx, b.APIVersion, b.Kind)
	if err != nil {
		return fmt.Errorf("%s: %w", why, g.unknown(b.APIVersion, b.Kind))
	}
	d := demand{resource: found.GroupResource(), verbs: readVerbs(), why: why}
	if b.NamespaceLabels != nil {
		g.demands = append(g.demands, demand{resource: schema.GroupResource{Resource: "namespaces"}, verbs: readVerbs(), why: why})
	}
	if len(b.Namespaces) == 0 || b.NamespaceLabels != nil || !namespaced {
		g.demands = append(g.demands, d)
		return nil
	}
	for _, namespace := range b.Namespaces {
		d.namespace = namespace
		g.demands = append(g.demands, d)
	}
	return nil
}

// unknown is the error for a kind that was not found, with what to do about it: it may be misspelt,
// or the cluster may lack it, or not answer for its group at this moment.
func (g *generator) unknown(apiVersion, kind string) error {
	name := strings.TrimPrefix(apiVersion+"/"+kind, "/")
	// Groups without a dot are those of Kubernetes itself; all others have a domain.
	if group, _, grouped := strings.Cut(apiVersion, "/"); apiVersion != "" && (!grouped || !strings.Contains(group, ".")) {
		return fmt.Errorf("%s is not a kind of this version of Kubernetes; correct its apiVersion or kind", name)
	}
	if g.withoutCluster() {
		return fmt.Errorf("%s is not a built-in kind of Kubernetes, and no module contains its CRD; add the module that does, or set --kube-config to that of a cluster that has the kind", name)
	}
	for _, gv := range g.cluster.Away {
		if apiVersion == "" || strings.HasPrefix(apiVersion, gv.Group+"/") {
			return fmt.Errorf("it is unknown whether the cluster has %s: APIService %s.%s is not available; try again when it is", name, gv.Version, gv.Group)
		}
	}
	return fmt.Errorf("the cluster has no %s; install its CRD first, or add it to crds/ of a module", name)
}

// module adds what the release of a module needs: its records and namespace, the objects of its
// chart, and what templates look up. The chart is applied with each layer of values.
func (g *generator) module(ctx context.Context, m addons.Module) error {
	if !charts.Exists(m.Dir) {
		return nil
	}
	g.demands = append(g.demands, namespaceDemands(g.config, m)...)
	client, err := g.chart(m.File.Namespace)
	if err != nil {
		return err
	}
	layers, err := g.layers(m)
	if err != nil {
		return err
	}
	for _, merged := range layers {
		_, err := client.Apply(ctx, plan.HelmModule(m, merged))
		record, lookups := g.record, g.lookups
		g.record, g.lookups = "", nil
		// Helm always fails here, since writes are refused. Without a record it failed before, and
		// err is the reason.
		if record == "" {
			return fmt.Errorf("module %s: render its chart with the values on disk: %w; pass values that hooks set with --values", m.Name, err)
		}
		if err := g.objects(ctx, m, record); err != nil {
			return err
		}
		// Lookups by templates fail at run time without the right, and the render with them.
		for _, asked := range lookups {
			g.demands = append(g.demands, demand{asked.Namespace, asked.GroupResource(), "", []string{asked.Verb}, "chart of module " + m.Name})
		}
	}
	return nil
}

// layers returns the values on disk, and these once more with each file of --values.
func (g *generator) layers(m addons.Module) (all []map[string]any, err error) {
	sections, err := g.sections(m)
	if err != nil {
		return nil, err
	}
	for _, layer := range append([]any{nil}, g.extra...) {
		merged, _ := values.Merge(sections, layer).(map[string]any)
		all = append(all, merged)
	}
	return all, nil
}

// sections returns the values on disk, with the sections that a chart sees (D2).
func (g *generator) sections(m addons.Module) (map[string]any, error) {
	global, err := values.NewSection(values.GlobalKey, g.tree.Global.Schemas, g.tree.Global.Static...)
	if err != nil {
		return nil, err
	}
	own, err := values.NewSection(m.Key, m.Schemas, m.Static...)
	if err != nil {
		return nil, err
	}
	return map[string]any{values.GlobalKey: global.Merged(), m.Key: own.Merged()}, nil
}
