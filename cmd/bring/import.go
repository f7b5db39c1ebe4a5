package bring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/helm"
	"addon-operator/helm/fetch"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// importing is one run of 'import release'. The first fields are flags; place and read set the
// others, in this order.
type importing struct {
	config    *cli.Config
	planner   Planner
	planText  func(view.ModulePlan) string
	namespace string        // of the release
	source    fetch.Request // where the chart is, when the record is not enough
	order     int           // of the module; 0 is behind the others
	dryRun    bool

	// name is that of the release and of the module, and key that of its values.
	name, key string
	// root is the first of the modules directories, and base the name of the new one in it.
	root   string
	base   string // name of the module's directory
	record helm.Record
	from   string         // where the chart was fetched, for people; empty when it is that of the record
	given  map[string]any // to Helm, in the form of values.yaml
}

// Planner makes a plan from the modules directory and the cluster, without a running operator.
// Package main passes it, so that this package does not import the operator.
type Planner func(context.Context, *cli.Config, *slog.Logger, view.PlanRequest) (view.Plan, error)

// Import returns the command import, for modules of what is in the cluster. planText is what a plan
// prints of one module.
func Import(c *cli.Config, planner Planner, planText func(view.ModulePlan) string) *cobra.Command {
	cmd := cli.Group("import", "Create modules from what is in the cluster")
	i := &importing{config: c, planner: planner, planText: planText}
	release := &cobra.Command{
		Use: "release NAME", Short: "Create a module from a release that 'helm install' has created",
		Long: `Reads the newest record of a Helm release and writes a module with the chart in chart/, the values that were passed
to Helm in values.yaml, and the namespace in module.yaml. Nothing is written to the cluster. The command prints what
the first run would do: usually nothing but the operator's labels on the record.

Records contain no subcharts. If the chart has some, specify it with --chart, in the same version, or with --repo.`,
		Example: "  addon-operator import release podinfo --namespace web --modules-dir ./modules\n" +
			"  addon-operator import release loki --namespace logs --chart grafana/loki --dry-run\n" +
			"  addon-operator import release loki --namespace logs --repo https://charts.example.com --username me",
		Args: cli.OneArg("the name of one release, as shown by 'helm list'"),
		RunE: func(cmd *cobra.Command, args []string) error {
			i.name = args[0]
			if alone := i.alone(cmd.LocalNonPersistentFlags()); alone != "" {
				return cli.Usagef("--%s sets how a chart is fetched, and needs --chart or --repo", alone)
			}
			return i.run(cmd)
		},
	}
	flags := release.Flags()
	flags.StringVarP(&i.namespace, "namespace", "n", "", "namespace of the release; without one, that of the operator (ADDON_OPERATOR_NAMESPACE)")
	flags.StringVar(&i.source.Ref, "chart", "", "the chart of the release, for one with subcharts: a directory, an archive, oci://…, or REPO/CHART; with --repo its name, which is optional")
	chartFlags(flags, &i.source)
	// These flags mean something else here than for a new module.
	flags.Lookup("version").Usage = "version of the chart, which must be that of the release (default: that of the release)"
	flags.Lookup("devel").Hidden = true // the version is known
	flags.IntVar(&i.order, "order", 0, "order number of the module (default: after all others)")
	flags.BoolVar(&i.dryRun, "dry-run", false, "do not write the module; print what would be written, and what its first run would do")
	cmd.AddCommand(release)
	return cmd
}

// alone returns a flag about fetching a chart that was given although none is fetched; "" when
// there is none. It would be ignored, so it is refused.
func (i *importing) alone(given *pflag.FlagSet) (name string) {
	if i.source.Ref != "" || i.source.Repo != "" {
		return ""
	}
	// A set of its own contains the flags about charts, also when one is added.
	ofCharts := pflag.NewFlagSet("", pflag.ContinueOnError)
	chartFlags(ofCharts, &fetch.Request{})
	given.VisitAll(func(f *pflag.Flag) {
		if f.Changed && ofCharts.Lookup(f.Name) != nil {
			name = f.Name
		}
	})
	return name
}

// run writes the module into a hidden directory, plans its first run there, and moves it to its
// place. With --dry-run everything but the last step happens, so that the report is the same.
func (i *importing) run(cmd *cobra.Command) error {
	i.namespace = cmp.Or(i.namespace, i.config.Namespace)
	if i.namespace == "" {
		return cli.Usagef("import release needs the namespace of the release: --namespace")
	}
	if err := i.place(); err != nil {
		return err
	}
	if err := i.read(cmd.Context()); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(i.root, ".import-") // modules do not begin with a dot; a rename within a directory is one step
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	defer os.RemoveAll(tmp)
	dir := filepath.Join(tmp, i.base)
	files, err := i.write(cmd.Context(), dir)
	if err != nil {
		return err
	}
	// Before the rename: a running operator would take the module over before it is known what it
	// does.
	first, why := i.plan(cmd, tmp)
	if !i.dryRun {
		if err := os.Rename(dir, filepath.Join(i.root, i.base)); err != nil {
			return fmt.Errorf("import: %w", err)
		}
	}
	_, err = io.WriteString(cmd.OutOrStdout(), i.report(files, first, why))
	return err
}

// place decides where the module is written, and refuses a name that a module cannot have, or has.
// A module is called like its release (H1), so there is no choice of the name.
func (i *importing) place() (err error) {
	if i.key, err = values.Key(i.name); err != nil {
		return fmt.Errorf("release %s cannot become a module, because a module has the name of its release, and no command of Helm renames one: %w", i.name, err)
	}
	if i.order < 0 {
		return cli.Usagef("order must be 0 or more, not %d", i.order)
	}
	if len(i.config.Dirs.Modules) == 0 {
		return cli.Usagef("import release needs a directory for the module: --modules-dir")
	}
	i.root = i.config.Dirs.Modules[0]
	tree, err := addons.Load(i.config.Dirs)
	// Loading fails for mistakes in other modules, too, which are no obstacle.
	if _, problem := os.Stat(i.root); problem != nil {
		return fmt.Errorf("import: %w", errors.Join(err, problem))
	}
	highest := 0
	for _, m := range slices.Concat(tree.Modules, tree.Broken) { // what is wrong in others is theirs
		if m.Name == i.name {
			return fmt.Errorf("the module %s exists already, in %s; remove it, or keep using it for the release", i.name, m.Dir)
		}
		highest = max(highest, m.Order)
	}
	const step = 10 // leaves room between modules
	// Behind all others, since nothing is known of what it needs.
	if i.order == 0 {
		i.order = (highest/step + 1) * step
	}
	i.base = fmt.Sprintf("%03d-%s", i.order, i.name)
	return nil
}

// read reads the newest record of the release, and refuses one that the operator must not take
// over: a release that another operator manages, the operator's own (B6), and one that Helm has not
// finished.
func (i *importing) read(ctx context.Context) error {
	c := i.config
	client, err := c.Connect()
	if err != nil {
		return err
	}
	releases, err := helm.New(helm.Options{Config: client.RESTConfig(), Namespace: i.namespace, Driver: c.HelmDriver})
	if err != nil {
		return err
	}
	i.record, err = releases.Record(ctx, i.name)
	var missing *helm.NoReleaseError
	switch {
	case errors.As(err, &missing):
		return fmt.Errorf("%w; --namespace and HELM_DRIVER determine where records are read", err)
	// The operator needs the same right later, so the error names it.
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; to import a release you need permission to list and get %s in its namespace; the operator will need it, too", err, c.HelmDriver.Resource().Resource)
	case err != nil:
		return err
	// Two operators would undo each other's work.
	case i.record.Ours:
		return fmt.Errorf("release %s in namespace %s has the labels of an addon-operator, which manages it already; its module is in the modules directory of that operator", i.name, i.namespace)
	case i.name == c.HelmIgnoreRelease && i.namespace == c.Namespace:
		return fmt.Errorf("release %s is that of the operator itself (HELM_IGNORE_RELEASE), which cannot become a module", i.name)
	}
	return i.checkStatus()
}

// checkStatus refuses every status but deployed. The operator would repair any other one at its
// first run (H5.2), so a module that is meant to change nothing would write.
func (i *importing) checkStatus() error {
	r := i.record
	hint := "finish the operation with Helm first"
	switch {
	case r.Status == "deployed":
		return nil
	case strings.HasPrefix(r.Status, "pending"), r.Status == "uninstalling":
		hint = "wait if Helm is working on it now; if Helm was interrupted, run 'helm rollback', 'helm upgrade' or 'helm uninstall' first"
	case r.Status == "failed":
		hint = "its newest revision has failed, so it is unknown what is deployed; repair it with 'helm rollback' or 'helm upgrade' first"
	case r.Status == "uninstalled":
		hint = "it was uninstalled, and only its history was kept: there is nothing to import"
	}
	return fmt.Errorf("release %s in namespace %s, revision %d, has the status %s: %s", i.name, i.namespace, r.Revision, r.Status, hint)
}

// write writes the module into dir and returns its files, relative to it. values.yaml has only what
// was given to Helm: the defaults are in the chart.
func (i *importing) write(ctx context.Context, dir string) (files []string, err error) {
	source, err := i.writeChart(ctx, filepath.Join(dir, "chart"))
	if err != nil {
		return nil, err
	}
	module := moduleFile(source) + fmt.Sprintf("namespace: %s\n", quoted(i.namespace))
	section, err := values.ParseYAML(i.record.Values)
	if err != nil {
		return nil, fmt.Errorf("values of release %s: %w", i.name, err)
	}
	i.given = map[string]any{i.key: section}
	given, err := values.YAML(i.given)
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf("# The values that were passed to Helm for release %s, revision %d.\n%s: true\n%s", i.name, i.record.Revision, values.FlagKey(i.key), given)
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "module.yaml"), []byte(module), 0o644), os.WriteFile(filepath.Join(dir, "values.yaml"), []byte(text), 0o644)); err != nil {
		return nil, err
	}
	// The files of the chart are known only now.
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			relative, _ := filepath.Rel(dir, path) // it is below
			files = append(files, filepath.ToSlash(relative))
		}
		return err
	})
	return files, err
}

// writeChart writes the chart of the release: from its record, unless that lacks subcharts, or from
// the source that the user names. Then name and version must be those of the record, because
// another chart would upgrade the release. The plan shows whether the content is the same.
func (i *importing) writeChart(ctx context.Context, dir string) (source fetch.Origin, err error) {
	r := i.record
	from := i.source
	// The record names the chart, so --repo is enough.
	if from.Ref == "" && from.Repo != "" {
		from.Ref = r.Chart
	}
	from.Version = cmp.Or(from.Version, r.Version)
	if from.Ref == "" && len(r.Absent) > 0 {
		return source, fmt.Errorf("the chart %s %s has subcharts (%s), which the record of a release does not contain; specify the chart: --chart DIRECTORY, ARCHIVE, oci://… or REPO/CHART, or --repo URL",
			r.Chart, r.Version, strings.Join(r.Absent, ", "))
	}
	if from.Ref == "" {
		return fetch.Origin{Name: r.Chart, Version: r.Version}, r.WriteChart(dir)
	}
	got, err := fetch.Get(ctx, from, dir)
	if err != nil {
		return source, fmt.Errorf("release %s was installed from the chart %s %s: %w", i.name, r.Chart, r.Version, err)
	}
	if got.Name != r.Chart || got.Version != r.Version {
		return source, fmt.Errorf("the release was installed from the chart %s %s, but %s is %s; import the deployed version first, then upgrade it", r.Chart, r.Version, from.Ref, got.Origin)
	}
	i.from = cmp.Or(got.Repository, from.Ref)
	return got.Origin, nil
}

// plan returns the effects of the first run of the module, which is in root so far, next to the
// existing modules. Without a plan, why is the reason: a module can be written when the cluster is
// not available.
func (i *importing) plan(cmd *cobra.Command, root string) (found *view.ModulePlan, why string) {
	// A copy: the configuration belongs to the command line.
	c := *i.config
	c.Dirs.Modules = append(slices.Clone(c.Dirs.Modules), root)
	if c.Namespace == "" {
		return nil, "the namespace of the operator is unknown; set ADDON_OPERATOR_NAMESPACE"
	}
	if _, err := os.Stat(c.Dirs.Global); err != nil && !c.Given("global-hooks-dir") {
		c.Dirs.Global = root // without hooks
	}
	// Warnings about other modules are not the subject here.
	plan, err := i.planner(cmd.Context(), &c, cli.Log(cmd, slog.LevelError), view.PlanRequest{})
	switch {
	case err != nil:
		return nil, err.Error()
	case plan.Refused != "":
		return nil, "the ConfigMap in the cluster is refused: " + plan.Refused
	}
	for _, m := range plan.Modules {
		// A purge would be of a release of this name without its module.
		if m.Module == i.name && m.Step != view.StepPurge {
			return &m, ""
		}
	}
	return nil, fmt.Sprintf("the module would be disabled: a layer above its values.yaml sets %s: false, or an enabled script disables it", values.FlagKey(i.key))
}
