package remote

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
	"addon-operator/kube"
)

// Events is the command events. It reads Kubernetes Events with the kubeconfig of the person and
// does not ask the operator: Events outlive it, and a change of the leader; a record in its memory
// would not.
func Events(c *cli.Config) *cobra.Command {
	a := &asking{config: c}
	var follow bool
	cmd := &cobra.Command{
		Use: "events", Short: "Print the Events of the operator: modules that keep failing, refused values, held purges",
		Long: `Prints the Kubernetes Events of the operator in its namespace, the oldest first: modules and hooks that keep failing
or have recovered, refused values, held purges, Helm hooks that wait. The API server keeps Events for an hour, unless it
is configured otherwise; they are available even when the operator is not. The command reads them with your kubeconfig,
and you need permission to list and watch events in that namespace.`,
		Example: "  addon-operator events\n  addon-operator events --follow --namespace addon-operator --context production\n  addon-operator events -o jsonpath='{.events[?(@.type==\"Warning\")].message}'",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.checked(); err != nil {
				return err
			}
			client, err := operatorNamespace(cmd.Context(), c)
			if err != nil {
				return err
			}
			if follow {
				return a.followEvents(cmd, client)
			}
			all, err := client.OperatorEvents(cmd.Context(), c.Namespace)
			if err != nil {
				return err
			}
			// [] in JSON, not null.
			if all == nil {
				all = []kube.OperatorEvent{}
			}
			return a.printData(cmd.OutOrStdout(), map[string]any{"events": all}, eventTable)
		},
	}
	a.format(cmd, "table", "json", "yaml")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print new Events until Ctrl-C")
	return cmd
}

// eventTable has a line for each Event; one that was repeated is one Event with a count.
func eventTable(w io.Writer, body []byte) error {
	var list struct{ Events []kube.OperatorEvent }
	if err := decoded(body, &list); err != nil {
		return err
	}
	var rows [][]string
	for _, e := range list.Events {
		rows = append(rows, []string{ago(e.Last), fmt.Sprint(e.Count), e.Type, e.Reason, cell(w, e.Message, 160)})
	}
	return table(w, "There are no Events of an operator; the API server deletes Events after a while.", "LAST COUNT TYPE REASON MESSAGE", rows)
}

// followEvents prints a line for each Event, those that exist and then new ones, until Ctrl-C. A
// table cannot grow, since its columns depend on all rows.
func (a *asking) followEvents(cmd *cobra.Command, client *kube.Client) error {
	if a.output != "table" {
		return cli.Usagef("--follow prints lines, not %s", a.output)
	}
	out := printable{Writer: cmd.OutOrStdout(), whole: true}
	return client.FollowOperatorEvents(cmd.Context(), a.config.Namespace, func(s kube.OperatorEvent) error {
		// An Event that is repeated comes again, with the new count.
		times := ""
		if s.Count > 1 {
			times = fmt.Sprintf(" (%d times)", s.Count)
		}
		// One line for each, so that grep finds all of an Event.
		_, err := fmt.Fprintf(out, "%s %s %s: %s%s\n", s.Last.Format(time.RFC3339), s.Type, s.Reason, strings.Join(strings.Fields(s.Message), " "), times)
		return err
	})
}
