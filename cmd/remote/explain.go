package remote

import (
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
	"addon-operator/values"
)

// Values is the group values, with the commands that explain and change values. main adds the
// command that checks them without an operator.
func Values(c *cli.Config) *cobra.Command {
	names := &completer{c}
	cmd := cli.Group("values", "Check, explain and change values")
	cmd.AddCommand(explainCommand(c, names), diffCommand(c, names), setCommand(c, names), unsetCommand(c, names))
	return cmd
}

// explainCommand is values explain. Without MODULE the operator takes the section from the path.
func explainCommand(c *cli.Config, names *completer) *cobra.Command {
	a := &asking{config: c}
	cmd := &cobra.Command{
		Use: "explain [MODULE] PATH", Short: "Print where values come from, and what they override",
		Long: `Prints the layer that each value at a path of the running operator comes from: a file,
the ConfigMap, a default of a schema or a hook; for hooks the task and the time; and below
it the values that it overrides. A path to a map explains every value in it; "*" stands
for any key. The path begins with global or with the module, unless MODULE is given.`,
		Example: "  addon-operator values explain global.clusterName\n  addon-operator values explain ingress-nginx controller.replicas",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return cli.Usagef("explain needs a path, such as global.a.b, or a module and a path")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			// The path is the last argument; without MODULE the operator finds the section in it.
			query := url.Values{"path": {args[len(args)-1]}}
			if len(args) == 2 {
				query.Set("module", args[0])
			}
			return a.show(cmd, "/values/explain", query, explainTable)
		},
		ValidArgsFunction: first(names.modules),
	}
	a.flags(cmd, "table", "json", "yaml")
	return cmd
}

// diffCommand is values diff: it compares values with those of the last converge. The command diff
// compares manifests.
func diffCommand(c *cli.Config, names *completer) *cobra.Command {
	a := &asking{config: c}
	cmd := &cobra.Command{
		Use: "diff [MODULE]", Short: "Print which values changed since the last converge, and who changed them",
		Example: "  addon-operator values diff\n  addon-operator values diff ingress-nginx -o yaml",
		Args:    cli.AtMost(1, "one module, or none for all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{}
			if len(args) == 1 {
				query.Set("module", args[0])
			}
			return a.show(cmd, "/values/diff", query, diffTable)
		},
		ValidArgsFunction: first(names.modules),
	}
	a.flags(cmd, "table", "json", "yaml")
	return cmd
}

// explainTable has a line for each source of each value, the strongest first; only that one has the
// path, so that the overridden sources are easy to see below it. The note about changed files is the same for
// all values of an answer, and is written once.
func explainTable(w io.Writer, body []byte) error {
	var leaves []values.Leaf
	if err := decoded(body, &leaves); err != nil {
		return err
	}
	var rows [][]string
	for _, leaf := range leaves {
		path := leaf.Path
		for _, source := range leaf.Sources {
			value := shown(w, source.Value)
			// A hook may remove a value of a layer below: then it has none here.
			if source.Removed {
				value = "(removed)"
			}
			rows = append(rows, []string{path, value, source.Layer, from(source), source.Task, at(source.Time)})
			// The next lines of this value are what the first one overrides.
			path = "  overrides"
		}
	}
	err := table(w, "There are no values.", "PATH VALUE LAYER FROM TASK SINCE", rows)
	if err == nil && len(leaves) > 0 && leaves[0].Note != "" {
		_, err = fmt.Fprintln(notes(w), "\nNote: "+leaves[0].Note)
	}
	return err
}

// diffTable has a line for each changed value. By is missing when no layer has the value any more.
func diffTable(w io.Writer, body []byte) error {
	var diffs []struct {
		Since   time.Time
		Changes []values.Change
	}
	if err := decoded(body, &diffs); err != nil {
		return err
	}
	var rows [][]string
	for _, diff := range diffs {
		for _, c := range diff.Changes {
			before, now := shown(w, c.Before), shown(w, c.After)
			// Before and After are null for what did not exist, which would look like a value.
			if c.Added {
				before = "(none)"
			}
			if c.Gone {
				now = "(none)"
			}
			// A value that no layer has any more has no source: all its columns are dashes.
			by := values.Source{}
			if c.By != nil {
				by = *c.By
			}
			rows = append(rows, []string{c.Path, before, now, by.Layer, from(by), by.Task, at(by.Time)})
		}
	}
	return table(w, "No values changed since the last converge.", "PATH BEFORE NOW LAYER FROM TASK SINCE", rows)
}
