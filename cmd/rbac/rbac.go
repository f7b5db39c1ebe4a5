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
	"slices"
	"strings"

	"github.com/spf13/cobra"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/kube/apiserver"
	"addon-operator/kube/fields"

	"addon-operator/values"
)

// rbacOptions are the flags of 'rbac generate'.
type rbacOptions struct {
	account, name string
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
a * come first. If a hook or a chart fails, no rules are printed, because an incomplete set would remove
permissions; --partial prints the others. Nothing is written to a cluster; the kinds of that of the kubeconfig are used.
DIR contains modules, as for lint.`,
		Example: "  addon-operator rbac generate | kubectl apply -f -\n  addon-operator rbac generate ~/add-ons",
		Args:    cli.Arguments("[DIR]"),
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
	flags.StringArrayVar(&o.values, "values", nil, "file with values that hooks would set, such as {global: {…}}; can be given several times")
	flags.BoolVar(&o.offline, "offline", false, "use only the built-in kinds of Kubernetes, even if there is a kubeconfig")
	flags.BoolVar(&o.watch, "watch-charts", false, "also allow the operator to watch the kinds of charts in the whole cluster, to detect deleted objects at once instead of within a minute")
	flags.BoolVar(&o.partial, "partial", false, "if hooks or charts fail, print the rules of all others for review; the command still fails")
	cmd.AddCommand(generate)
	return cmd
}

// generator collects demands from the modules and hooks of one tree, in one goroutine.
type generator struct {
	config   *cli.Config
	options  rbacOptions
	tree     *addons.Tree
	sections map[string]*values.Section
	runner   *hooks.Runner
	extra    []any // the values of each file of --values
	demands  []demand
	asked    bool // the API server asks hooks

	cluster kube.Discovery            // the kinds of the cluster, or of Kubernetes
	crds    map[string]map[string]any // definitions that modules bring, by their names, as far as they were found
	kinds   *kube.Client              // resolves words by what it serves
	helm    *helm.Client

	rendering string   // the module whose chart is being rendered
	lookups   []demand // of the templates of the last round: they fail at run time without the right, and the render with them
}

// generateRBAC prints the roles for all modules and global hooks. When one of them fails, it returns
// an error, and prints none unless --partial is given: the output is often piped to kubectl, and
// fewer rules would take rights from a running operator.
func generateRBAC(ctx context.Context, out, warnings io.Writer, c *cli.Config, o rbacOptions) error {
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
	if c.WebhookAddress != "" {
		g.asked, g.demands = true, append(g.demands, webhookDemands(c)...)
	}
	if c.SecureMetrics {
		g.demands = append(g.demands, reviewDemands()...)
	}
	// Every part is tried, and each failure is named: the author should not have to run this once
	// for each. Charts come first: they bring kinds.
	errs := []error{g.charts(ctx), g.hooks(ctx, "global hook", g.tree.Global.HooksDir, "", g.tree.Global.Dir, hooks.Global)}
	for _, m := range g.tree.Modules {
		errs = append(errs, g.hooks(ctx, "hook", m.HooksDir(), filepath.Join(m.Base, "hooks"), m.Root, hooks.Module))
	}
	if ctx.Err() != nil { // what was not asked is not named
		return context.Cause(ctx)
	}
	if err = errors.Join(errs...); err != nil {
		err = fmt.Errorf("the rules are incomplete; --partial prints the others: %w", err)
	}
	if err != nil && !o.partial { // kubectl behind a pipe would apply them
		return err
	}
	return errors.Join(err, manifest{o.name, c.Namespace, o.account, err}.write(out, roles(g.demands)))
}

// newGenerator loads the modules and the values of --values, and learns the kinds of the cluster. A
// tree that an operator would refuse is an error here, too.
func newGenerator(ctx context.Context, c *cli.Config, o rbacOptions, tmp string) (*generator, error) {
	tree, err := addons.Load(c.Dirs)
	if err != nil {
		return nil, err
	}
	g := &generator{config: c, options: o, tree: tree, crds: map[string]map[string]any{}}
	if g.sections, err = plan.Sections(tree); err != nil {
		return nil, err
	}
	g.runner, err = hooks.NewRunner(hooks.Options{TmpDir: tmp, Log: slog.New(slog.DiscardHandler), Timeout: c.HookTimeout, Chroot: c.ChrootDir, JQLibrary: c.JQDirs()})
	if err != nil {
		return nil, err
	}
	if g.extra, err = cli.ReadValues(o.values); err != nil {
		return nil, err
	}
	cluster := c.Cluster()
	if g.withoutCluster() {
		cluster = kube.Options{Config: apiserver.New(fields.Newest).RESTConfig(), QPS: -1}
	}
	client, err := kube.Connect(cluster)
	if err != nil {
		return nil, err
	}
	// The only requests to a real cluster.
	if g.cluster, err = client.Discover(ctx); err != nil {
		return nil, fmt.Errorf("get the kinds of the cluster of %s: %w; --offline works without them", c.Kubeconfig, err)
	}
	return g, nil
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
			if hook.Config.HasWebhooks() && !g.asked {
				g.asked, g.demands = true, append(g.demands, webhookDemands(g.config)...)
			}
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

// unknown is the error for a kind that was not found: it may be misspelt, or the cluster may lack it, or
// not answer for its group at this moment.
func (g *generator) unknown(apiVersion, kind string) error {
	where := "the cluster"
	if g.withoutCluster() {
		where = "Kubernetes"
	}
	return fmt.Errorf("neither %s nor a module has the kind %s; correct it, or add the module with its CRD, or use the cluster that has it", where, strings.TrimPrefix(apiVersion+"/"+kind, "/"))
}

// rule is a rule of a role with the reasons for it, which become comments.
type rule struct {
	rbacv1.PolicyRule
	why  []string
	wide bool // as its demands are
}

// role is a Role, or a ClusterRole when it has no namespace.
type role struct {
	namespace string
	rules     []rule
}

// isWide reports a demand for all groups, resources or verbs: a person who grants it should see
// which part of the operator needs it.
func (d demand) isWide() bool {
	return d.resource.Group == "*" || d.resource.Resource == "*" || slices.Contains(d.verbs, "*")
}

// roles turns demands into few rules: equal ones become one, and what is granted in the whole
// cluster is not granted a second time in a namespace. A demand with a * stays apart, with those
// who make it: a person who removes the rule keeps what the others need.
func roles(demands []demand) (all []role) {
	// Demands with one key become one rule.
	type key struct {
		namespace, names string
		resource         schema.GroupResource
		wide             bool
	}
	verbs, why := map[key][]string{}, map[key][]string{}
	// First those of the whole cluster, so that the result does not depend on the order of demands.
	for _, local := range []bool{false, true} {
		for _, d := range demands {
			granted := verbs[key{"", "", d.resource, d.isWide()}]
			isGranted := func(verb string) bool { return slices.Contains(granted, verb) || slices.Contains(granted, "*") }
			if (d.namespace != "") != local || local && !slices.ContainsFunc(d.verbs, func(verb string) bool { return !isGranted(verb) }) {
				continue
			}
			k := key{d.namespace, d.names, d.resource, d.isWide()}
			verbs[k], why[k] = append(verbs[k], d.verbs...), append(why[k], d.why)
		}
	}
	byNamespace := map[string][]rule{}
	for k := range verbs {
		one := rule{rbacv1.PolicyRule{APIGroups: []string{k.resource.Group}, Resources: []string{k.resource.Resource}}, unique(why[k]), k.wide}
		one.Verbs = unique(verbs[k])
		if one.Verbs[0] == "*" {
			one.Verbs = one.Verbs[:1]
		}
		if k.names != "" {
			one.ResourceNames = strings.Split(k.names, ",")
		}
		byNamespace[k.namespace] = append(byNamespace[k.namespace], one)
	}
	for namespace, rules := range byNamespace {
		all = append(all, role{namespace, joined(rules)})
	}
	slices.SortFunc(all, func(a, b role) int { return cmp.Compare(a.namespace, b.namespace) })
	return all
}

// joined puts rules together that differ only in their resource. It sorts them, those with a * first,
// so that the output does not depend on the order of maps: people keep it in a repository.
func joined(rules []rule) (out []rule) {
	same := func(a, b rule) int {
		rank := map[bool]int{true: -1}
		return cmp.Or(cmp.Compare(rank[a.wide], rank[b.wide]), slices.Compare(a.why, b.why), slices.Compare(a.APIGroups, b.APIGroups),
			slices.Compare(a.Verbs, b.Verbs), slices.Compare(a.ResourceNames, b.ResourceNames))
	}
	slices.SortFunc(rules, func(a, b rule) int { return cmp.Or(same(a, b), slices.Compare(a.Resources, b.Resources)) })
	for _, r := range rules {
		if last := len(out) - 1; last >= 0 && same(out[last], r) == 0 {
			out[last].Resources = append(out[last].Resources, r.Resources...)
			continue
		}
		out = append(out, r)
	}
	return out
}

func unique(texts []string) []string { return slices.Compact(slices.Sorted(slices.Values(texts))) }

// manifest is what the roles are written for.
type manifest struct {
	name, namespace, account string // of the roles; of the ServiceAccount
	missing                  error  // why rules are missing
}

// write prints roles and their bindings as YAML, with the hooks and charts that need each rule as
// comments.
func (m manifest) write(out io.Writer, all []role) error {
	var text strings.Builder
	comment := func(line string) { text.WriteString("# " + strings.ReplaceAll(line, "\n", "\n# ") + "\n") }
	comment(fmt.Sprintf("Rules for ServiceAccount %s in namespace %s, generated by 'addon-operator rbac generate'.", m.account, m.namespace))
	comment("Hooks that use kubectl or KUBERNETES_PATCH_PATH may need more: add it to rbac.extraRules of the operator's chart.")
	if m.missing != nil {
		comment("These rules are INCOMPLETE:\n" + m.missing.Error())
	}
	for _, r := range all {
		// ClusterRoles of two operators in one cluster need different names.
		kind, metadata := "ClusterRole", fmt.Sprintf("{name: %q}", m.namespace+":"+m.name)
		ref := m.namespace + ":" + m.name
		if r.namespace != "" {
			kind, ref, metadata = "Role", m.name, fmt.Sprintf("{name: %q, namespace: %q}", m.name, r.namespace)
		}
		const head = "---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata: %s\n"
		fmt.Fprintf(&text, head+"rules:\n", kind, metadata)
		for _, one := range r.rules {
			for _, why := range one.why {
				comment(why)
			}
			fmt.Fprintf(&text, "- apiGroups: %s\n  resources: %s\n", sequence(one.APIGroups), sequence(one.Resources))
			if len(one.ResourceNames) > 0 {
				fmt.Fprintf(&text, "  resourceNames: %s\n", sequence(one.ResourceNames))
			}
			fmt.Fprintf(&text, "  verbs: %s\n", sequence(one.Verbs))
		}
		fmt.Fprintf(&text, head, kind+"Binding", metadata)
		fmt.Fprintf(&text, "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: %s, name: %q}\n", kind, ref)
		fmt.Fprintf(&text, "subjects: [{kind: ServiceAccount, name: %q, namespace: %q}]\n", m.account, m.namespace)
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// sequence writes texts as a YAML list on one line. They may be those of a chart, so they are quoted.
func sequence(texts []string) string {
	return strings.ReplaceAll(fmt.Sprintf("%q", texts), `" "`, `", "`)
}
