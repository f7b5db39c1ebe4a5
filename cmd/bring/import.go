package bring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"addon-operator/actors/plan"
	"addon-operator/cmd/cli"
	"addon-operator/helm"
	"addon-operator/helm/fetch"
	"addon-operator/values"
)

// importing is one run of 'import release'. The first fields are flags.
type importing struct {
	config    *cli.Config
	planner   cli.Planner
	namespace string        // of the release
	source    fetch.Request // where the chart is, when the record is not enough
	dryRun    bool

	name, key string // of the release and of the module; of its values
	record    helm.Record
}

// Import returns the command import, for modules of what is in the cluster.
func Import(c *cli.Config, planner cli.Planner) *cobra.Command {
	cmd := cli.Group("import", "Create modules from what is in the cluster")
	i := &importing{config: c, planner: planner}
	release := &cobra.Command{
		Use: "release NAME", Short: "Create a module from a release that 'helm install' has created",
		Long: `Reads the newest record of a Helm release and writes a module with the chart in chart/, the values that were passed
to Helm in values.yaml, and the namespace in module.yaml. Nothing is written to the cluster. The command prints what
the first run would do: usually nothing but the operator's labels on the record.

Records contain no subcharts. If the chart has some, specify it with --chart, in the same version, or with --repo.`,
		Example: "  addon-operator import release podinfo --namespace web --modules-dir ./modules\n" +
			"  addon-operator import release loki --namespace logs --repo https://charts.example.com --username me --dry-run",
		Args: cli.Arguments("the name of one release, as shown by 'helm list'"),
		RunE: func(cmd *cobra.Command, args []string) error {
			i.name = args[0]
			if i.source.Ref == "" && i.source.RepoURL == "" && i.source != (fetch.Request{}) { // it would be ignored
				return cli.Usagef("flags that set how a chart is fetched need --chart or --repo")
			}
			return i.run(cmd)
		},
	}
	flags := release.Flags()
	flags.StringVarP(&i.namespace, "namespace", "n", "", "namespace of the release; without one, that of the operator (ADDON_OPERATOR_NAMESPACE)")
	flags.StringVar(&i.source.Ref, "chart", "", "the chart of the release, for one with subcharts: a directory, an archive, oci://…, or REPO/CHART; with --repo its name, which is optional")
	chartFlags(flags, &i.source)
	flags.Lookup("version").Usage = "version of the chart, which must be that of the release (default: that of the release)"
	flags.BoolVar(&i.dryRun, "dry-run", false, "do not write the module; print what would be written, and what its first run would do")
	cmd.AddCommand(release)
	return cmd
}

// run writes the module on a stage, plans its first run there, and moves it to its place: a running
// operator would take the module over before it is known what it does. With --dry-run everything but
// the last step happens.
func (i *importing) run(cmd *cobra.Command) (err error) {
	dirs := i.config.Dirs.Modules
	if i.namespace = cmp.Or(i.namespace, i.config.Namespace); i.namespace == "" || len(dirs) == 0 {
		return cli.Usagef("import release needs the namespace of the release, --namespace, and a directory for the module, --modules-dir")
	}
	// A module is called like its release (H1), so there is no choice of the name.
	if i.key, err = values.Key(i.name); err != nil {
		return fmt.Errorf("release %s cannot become a module, because a module has the name of its release, and no command of Helm renames one: %w", i.name, err)
	}
	base, err := place(dirs, "", i.name)
	if err == nil {
		err = i.read(cmd.Context())
	}
	if err != nil {
		return err
	}
	return onStage(cmd, dirs[0], func(s *stage) error {
		r := i.record
		fmt.Fprintf(&s.out, "Release %s in namespace %s: chart %s %s, revision %d.\n", r.Release, r.Namespace, r.Chart, r.Version, r.Revision)
		secret, err := i.write(s, base)
		if err != nil {
			return err
		}
		first := s.placed(i.plan(cmd, s.modules))
		if i.dryRun {
			fmt.Fprintf(&s.out, "The module would be written to %s.\n", filepath.Join(s.dir, base))
		} else if err := s.publish(base); err != nil {
			return err
		}
		if secret {
			fmt.Fprintln(&s.out, "\nSecrets: values.yaml contains possible secrets in plain text that were only in the record of the release.\nMove them to the Secret with values before others can read the file.")
		}
		fmt.Fprintf(&s.out, "\nThe first run:\n%s\n", strings.TrimSpace(first))
		return nil
	})
}

// read reads the newest record of the release, and refuses one that the operator must not take over:
// a release that another operator manages, the operator's own (B6), and one that Helm has not finished,
// which the operator would repair at its first run (H5.2), so a module that is meant to change nothing
// would write.
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
	r, name := i.record, fmt.Sprintf("release %s in namespace %s", i.name, i.namespace)
	switch {
	case err != nil:
		return err
	case r.Ours: // two operators would undo each other's work
		return fmt.Errorf("%s has the labels of an addon-operator, which manages it already; its module is in the modules directory of that operator", name)
	case i.name == c.HelmIgnoreRelease && i.namespace == c.Namespace:
		return fmt.Errorf("%s is that of the operator itself (HELM_IGNORE_RELEASE), which cannot become a module", name)
	case r.Status != "deployed":
		return fmt.Errorf("%s, revision %d, has the status %s: wait if Helm is working on it, or end it with 'helm rollback', 'helm upgrade' or 'helm uninstall' first", name, r.Revision, r.Status)
	}
	return nil
}

// write writes the module. values.yaml has only what was given to Helm: the defaults are in the chart.
// secret reports that it has values that look like secrets, by their names, as on all pages.
func (i *importing) write(s *stage, base string) (secret bool, err error) {
	source, err := i.writeChart(s.path(base, chartDir))
	if err != nil {
		return false, err
	}
	section, err := values.ParseYAML(i.record.Values)
	if err != nil {
		return false, fmt.Errorf("values of release %s: %w", i.name, err)
	}
	given := map[string]any{i.key: section}
	text, err1 := values.YAML(given)
	const comment = "# The values that were passed to Helm for release %s, revision %d.\n%s: true\n"
	head := fmt.Sprintf(comment, i.name, i.record.Revision, values.FlagKey(i.key))
	module, err2 := moduleFile(source, i.namespace)
	err = errors.Join(err1, err2, s.write(base, "values.yaml", append([]byte(head), text...)))
	err = errors.Join(err, s.write(base, "module.yaml", module))
	return !reflect.DeepEqual(given, values.Mask(given, false)), err
}

// writeChart writes the chart of the release: from its record, unless that lacks subcharts, or from
// the source that the user names. Then name and version must be those of the record, because
// another chart would upgrade the release. The plan shows whether the content is the same.
func (i *importing) writeChart(dir string) (source fetch.Origin, err error) {
	r, from := i.record, i.source
	if from.Ref == "" && from.RepoURL != "" { // the record names the chart
		from.Ref = r.Chart
	}
	from.Version = cmp.Or(from.Version, r.Version)
	if from.Ref == "" {
		if len(r.Absent) > 0 {
			return source, fmt.Errorf("the chart %s %s has subcharts (%s), which the record of a release does not contain; specify the chart: --chart DIRECTORY, ARCHIVE, oci://… or REPO/CHART, or --repo URL",
				r.Chart, r.Version, strings.Join(r.Absent, ", "))
		}
		return fetch.Origin{Name: r.Chart, Version: r.Version}, r.WriteChart(dir)
	}
	got, err := fetch.Get(from, dir)
	if err != nil {
		return source, fmt.Errorf("release %s was installed from the chart %s %s: %w", i.name, r.Chart, r.Version, err)
	}
	if got.Name != r.Chart || got.Version != r.Version {
		return source, fmt.Errorf("the release was installed from the chart %s %s, but %s is %s; import the deployed version first, then upgrade it", r.Chart, r.Version, from.Ref, got.Origin)
	}
	return got.Origin, nil
}

// plan returns what the plan prints of the first run of the module, which is in root so far, next to
// the existing modules, or why there is none: a module can be written when the cluster is not available.
func (i *importing) plan(cmd *cobra.Command, root string) string {
	c := *i.config // the configuration belongs to the command line
	c.Dirs.Modules = append(slices.Clone(c.Dirs.Modules), root)
	if _, err := os.Stat(c.Dirs.Global); err != nil && !c.Given("global-hooks-dir") {
		c.Dirs.Global = root // without hooks
	}
	if c.Namespace == "" {
		return "It cannot be planned: the namespace of the operator is unknown; set ADDON_OPERATOR_NAMESPACE"
	}
	// Warnings about other modules are not the subject here.
	foreseen, err := i.planner(cmd.Context(), &c, cli.Log(cmd, slog.LevelError), plan.Request{})
	if err != nil || foreseen.Refused != "" {
		return "It cannot be planned: " + cmp.Or(foreseen.Refused, fmt.Sprint(err))
	}
	for _, m := range foreseen.Modules {
		if m.Module == i.name && m.Step != plan.StepPurge { // a purge would be of a release without its module
			return m.Text()
		}
	}
	return fmt.Sprintf("the module would be disabled: a layer above its values.yaml sets %s: false, or an enabled script disables it", values.FlagKey(i.key))
}
