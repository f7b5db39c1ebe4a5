package remote

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
)

// Module is the group module: pages about one module or all (J6). The operator finds a module by
// its name or by the key of its values, and lists the existing ones in its error, so nothing is checked here.
func Module(c *cli.Config) *cobra.Command {
	names := &completer{c}
	cmd := cli.Group("module", "Show modules of the running operator: their state, values, snapshots, manifests")
	cmd.AddCommand(moduleList(c), moduleRender(c, names), moduleDrift(c, names), monitorCommand(c, names), graphCommand(c))
	for _, s := range []part{
		{page: "values", short: "Print the merged values of a module", table: valueTable},
		{page: "config", short: "Print the values of a module in the ConfigMap", table: valueTable},
		{page: "patches", short: "Print the saved patches of the hooks of a module", table: patchTable},
		{page: "snapshots", short: "Print the snapshots of the kubernetes bindings of a module's hooks", table: snapshotTable, tableFirst: true},
	} {
		cmd.AddCommand(s.ofModule(c, names))
	}
	return cmd
}

// moduleList is module list. The states in its help are those of view.Module.State.
func moduleList(c *cli.Config) *cobra.Command {
	a := &asking{config: c, names: namesIn("name", "modules")}
	cmd := &cobra.Command{
		Use: "list", Short: "Print all modules and their state", Args: cli.NoArgs,
		Long: `Prints all modules in the order in which they run, including disabled ones.

STATE is one of

    disabled     it is disabled
    waiting      it is enabled, and its first run has not begun
    starting     it is in its first run, or waits to retry it
    running      it is in a later run, or waits to retry it
    ready        its last run has succeeded, and the objects of its release match their specs
    progressing  objects of its release are in progress
    unhealthy    objects of its release have failed, or have been in progress for too long
    held         an upgrade would delete data, and waits until a person allows it
    suspended    a person has suspended it, or it was disabled and is about to be deleted
    deleting     its release is being deleted

The state may be followed by parked (the module fails or waits, and others continue without it),
maintenance and drift. Below the table, the command shows purges of releases without a module
directory that wait for a confirmation and, with a Lease, which replica leads.`,
		Example: "  addon-operator module list\n  addon-operator module list --watch\n  addon-operator module list -o json | jq -r '.enabledModules[]'",
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.show(cmd, "/module/list", nil, moduleTable) },
	}
	a.format(cmd, "table", "json", "yaml")
	a.watching(cmd)
	return cmd
}

// part is a page that exists for each owner of values: for modules and for global.
type part struct {
	page, short string // page is its last element, and the name of the command
	table       tableWriter
	tableFirst  bool // table is the default format, not YAML
}

// formats of a part, the default first: values are read as YAML, lists as tables.
func (s part) formats() []string {
	if s.tableFirst {
		return []string{"table", "yaml", "json"}
	}
	return []string{"yaml", "json", "table"}
}

// ofModule is the command for the part of a module. The global values can come with values and
// config, which have the same form; patches and snapshots have none.
func (s part) ofModule(c *cli.Config, names *completer) *cobra.Command {
	a := &asking{config: c}
	var global bool
	cmd := &cobra.Command{
		Use: s.page + " NAME", Short: s.short,
		Example: "  addon-operator module " + s.page + " ingress-nginx\n  addon-operator module " + s.page + " ingress-nginx -o json",
		Args:    cli.OneArg("the name of one module, such as 'dns' for 010-dns"),
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{}
			if global {
				query.Set("global", "true")
			}
			// Escaped, so that no name becomes another page.
			return a.show(cmd, "/module/"+url.PathEscape(args[0])+"/"+s.page, query, s.table)
		},
		ValidArgsFunction: first(names.modules),
	}
	a.flags(cmd, s.formats()...)
	// The part that is shown stays the same; global comes next to it, each below its key.
	if s.page == "values" || s.page == "config" {
		cmd.Flags().BoolVarP(&global, "global", "g", false, "include the global values, each below its key")
	}
	return cmd
}

// moduleRender is module render. The operator makes the manifest as text, which can be piped to
// kubectl. --debug means the same as --debug-text here, and shadows the option of the operator of
// that name.
func moduleRender(c *cli.Config, names *completer) *cobra.Command {
	a := &asking{config: c}
	var diff, broken bool
	cmd := &cobra.Command{
		Use: "render NAME", Short: "Print the manifest that the chart of a module renders now",
		Long: `Prints the manifest that a run of the module would apply now. With --diff it prints the
differences from the deployed release instead, which are the changes that the next run of
the module would make. Nothing is applied.`,
		Example: "  addon-operator module render ingress-nginx\n  addon-operator module render ingress-nginx --diff",
		Args:    cli.OneArg("the name of one module, such as 'dns' for 010-dns"),
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{}
			if diff {
				query.Set("diff", "true")
			}
			if broken {
				query.Set("debug", "true")
			}
			if err := a.checked(); err != nil {
				return err
			}
			return a.show(cmd, a.made("/module/"+url.PathEscape(args[0])+"/render"), query, asIs)
		},
		ValidArgsFunction: first(names.modules),
	}
	a.flags(cmd, "text", "json", "yaml")
	cmd.Flags().BoolVar(&diff, "diff", false, "print the differences from the deployed release")
	cmd.Flags().BoolVar(&broken, "debug-text", false, "also print output of templates that is not YAML; needs --show-secrets")
	cmd.Flags().BoolVar(&broken, "debug", false, "the same as --debug-text")
	_ = cmd.Flags().MarkHidden("debug") // it was declared a line above
	return cmd
}

// onlyKey leaves one key of an answer, or reports the keys there are. The page of monitors has no
// parameter for a module.
func onlyKey(body []byte, key string) ([]byte, error) {
	var all map[string]json.RawMessage
	if err := decoded(body, &all); err != nil {
		return nil, err
	}
	one, there := all[key]
	if !there {
		return nil, fmt.Errorf("module %q not found; available: %s", key, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	return json.MarshalIndent(map[string]json.RawMessage{key: one}, "", "  ")
}

// monitorCommand is module resource-monitor: which objects the operator creates again when they are
// deleted (H13).
func monitorCommand(c *cli.Config, names *completer) *cobra.Command {
	a := &asking{config: c}
	cmd := &cobra.Command{
		Use: "resource-monitor [NAME]", Short: "Print the objects of releases that are watched for deletion", Args: cli.AtMost(1, "the name of one module, or none for all"),
		Example: "  addon-operator module resource-monitor\n  addon-operator module resource-monitor ingress-nginx",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.repeat(cmd, func(w io.Writer) error {
				body, err := a.page(cmd.Context(), "/module/resource-monitor", nil)
				// The page has all modules, and no parameter for one.
				if err == nil && len(args) == 1 {
					body, err = onlyKey(body, args[0])
				}
				if err != nil {
					return err
				}
				return a.print(w, body, monitorTable)
			})
		},
		ValidArgsFunction: first(names.modules),
	}
	a.format(cmd, "table", "json", "yaml")
	return cmd
}

// graphCommand is module graph.
func graphCommand(c *cli.Config) *cobra.Command {
	a := &asking{config: c}
	cmd := &cobra.Command{
		Use: "graph", Short: "Print the order of the modules, for Graphviz", Args: cli.NoArgs,
		Example: "  addon-operator module graph | dot -Tsvg > modules.svg",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checked(); err != nil {
				return err
			}
			return a.show(cmd, a.made("/graph"), nil, asIs)
		},
	}
	a.format(cmd, "text", "json", "yaml")
	return cmd
}

// Global is the group global: the same parts as of a module, and the list of global hooks (J6).
func Global(c *cli.Config) *cobra.Command {
	cmd := cli.Group("global", "Show the global values and hooks of the running operator")
	for _, s := range []part{
		// Of a module, hook list --module shows them.
		{page: "list", short: "Print the global hooks and their bindings", table: hookTable, tableFirst: true},
		{page: "values", short: "Print the merged global values", table: valueTable},
		{page: "config", short: "Print the global values in the ConfigMap", table: valueTable},
		{page: "patches", short: "Print the saved patches of global hooks", table: patchTable},
		{page: "snapshots", short: "Print the snapshots of the kubernetes bindings of global hooks", table: snapshotTable, tableFirst: true},
	} {
		a := &asking{config: c}
		sub := &cobra.Command{
			Use: s.page, Short: s.short, Args: cli.NoArgs, Example: "  addon-operator global " + s.page,
			RunE: func(cmd *cobra.Command, _ []string) error { return a.show(cmd, "/global/"+s.page, nil, s.table) },
		}
		a.flags(sub, s.formats()...)
		cmd.AddCommand(sub)
	}
	return cmd
}

// Queue is the group queue (J6). The operator makes its text, so it looks the same as with curl.
func Queue(c *cli.Config) *cobra.Command {
	names := &completer{c}
	cmd := cli.Group("queue", "Show the queues of the running operator")
	var empty bool
	a := &asking{config: c, names: namesOfQueues}
	list := &cobra.Command{
		Use: "list [NAME]", Short: "Print all queues and their tasks, or one queue",
		Example: "  addon-operator queue list\n  addon-operator queue list --watch\n  addon-operator queue list slow -o yaml",
		Args:    cli.AtMost(1, "the name of one queue, or none for all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{}
			if empty {
				query.Set("showEmpty", "true")
			}
			name := "list"
			if len(args) == 1 {
				// Names of queues may have slashes, which the route accepts in this form, too.
				name = url.PathEscape(args[0])
			}
			return a.queue(cmd, name, query)
		},
		ValidArgsFunction: first(names.queues),
	}
	list.Flags().BoolVarP(&empty, "show-empty", "e", false, "include empty queues in JSON and YAML")
	b := &asking{config: c}
	main := &cobra.Command{
		Use: "main", Short: "Print the tasks of the main queue", Args: cli.NoArgs, Example: "  addon-operator queue main",
		RunE: func(cmd *cobra.Command, _ []string) error { return b.queue(cmd, "main", nil) },
	}
	// Both have the same flags; the order of a map does not matter for that.
	for a, cmd := range map[*asking]*cobra.Command{a: list, b: main} {
		a.format(cmd, "text", "json", "yaml")
		a.watching(cmd)
	}
	cmd.AddCommand(list, main)
	return cmd
}

// queue prints the page of all queues (list) or of one. --show-empty has no effect on the text,
// which has all.
func (a *asking) queue(cmd *cobra.Command, name string, query url.Values) error {
	if err := a.checked(); err != nil {
		return err
	}
	return a.show(cmd, a.made("/queue/"+name), query, asIs)
}

// Raw is the command raw: any page, as it is. The body is not made printable, because a profile is
// binary.
func Raw(c *cli.Config) *cobra.Command {
	names := &completer{c}
	return &cobra.Command{
		Use: "raw [PATH]", Short: "Print a page of the debug address unchanged",
		Long:    "Prints a page of the debug address unchanged, or without PATH the list of all pages. curl on the debug address prints the same.",
		Example: "  addon-operator raw /discovery\n  addon-operator raw '/readyz?verbose'\n  addon-operator raw /module/dns/values.yaml",
		Args:    cli.AtMost(1, "the path of one page, such as /discovery, which lists all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "/discovery"
			if len(args) == 1 {
				path = args[0]
			}
			// The slash may be left out.
			if path == "" || path[0] != '/' {
				path = "/" + path
			}
			body, err := get(cmd.Context(), c, path)
			if err != nil {
				return err
			}
			return asIs(cmd.OutOrStdout(), body)
		},
		ValidArgsFunction: first(names.pages),
	}
}

// Hook is the group hook: the hooks of the running operator. main adds the commands that run one
// without an operator.
func Hook(c *cli.Config) *cobra.Command {
	names := &completer{c}
	a, b := &asking{config: c, names: namesIn("hook", "hooks")}, &asking{config: c}
	var module string
	list := &cobra.Command{
		Use: "list", Short: "Print the hooks of the running operator and their bindings", Args: cli.NoArgs,
		Example: "  addon-operator hook list\n  addon-operator hook list --module dns",
		RunE: func(cmd *cobra.Command, _ []string) error {
			query := url.Values{}
			if module != "" {
				query.Set("module", module)
			}
			return a.show(cmd, "/hook/list", query, hookTable)
		},
	}
	a.format(list, "table", "json", "yaml")
	list.Flags().StringVar(&module, "module", "", "print only the hooks of this module, or of 'global'")
	_ = list.RegisterFlagCompletionFunc("module", each(names.owners)) // it was declared a line above
	snapshots := &cobra.Command{
		Use: "snapshots NAME", Short: "Print the snapshots of the kubernetes bindings of a hook", Aliases: []string{"snapshot"},
		Example: "  addon-operator hook snapshots 010-dns/hooks/nodes.sh -o yaml",
		Args:    cli.OneArg("the name of one hook, as printed by 'hook list'"),
		RunE: func(cmd *cobra.Command, args []string) error {
			// Slashes of the name stay: the route has the whole rest of the path.
			return b.show(cmd, fmt.Sprintf("/hook/%s/snapshots", (&url.URL{Path: args[0]}).EscapedPath()), nil, snapshotTable)
		},
		ValidArgsFunction: first(names.hooks),
	}
	b.flags(snapshots, "table", "yaml", "json")
	cmd := cli.Group("hook", "Run a hook manually, or list the hooks of the running operator")
	cmd.AddCommand(list, snapshots)
	return cmd
}
