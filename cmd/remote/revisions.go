package remote

import (
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
	"addon-operator/messages/view"
)

// History prints the revisions of a module's release.
func History(c *cli.Config) *cobra.Command {
	a, names := &asking{config: c, names: namesIn("revision", "revisions")}, &completer{c}
	var most int
	cmd := &cobra.Command{
		Use: "history MODULE", Short: "Print the recorded revisions of a module's release, the newest first",
		Long: `Prints the recorded revisions of a module's release, the newest first: when each was installed, its status, the version
of the chart and of the application, and what Helm says about it. How many are kept is the option --helm-history-max.`,
		Example:           "  addon-operator history ingress-nginx\n  addon-operator history ingress-nginx --max 3 -o yaml",
		Args:              cli.OneArg("the name of one module, as 'dns' of 010-dns"),
		ValidArgsFunction: first(names.modules),
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{}
			if cmd.Flags().Changed("max") {
				query.Set("max", strconv.Itoa(most))
			}
			return a.show(cmd, "/module/"+url.PathEscape(args[0])+"/history", query, historyTable)
		},
	}
	a.format(cmd, "table", "json", "yaml")
	cmd.Flags().IntVar(&most, "max", 20, "how many revisions, at most 100")
	return cmd
}

func historyTable(w io.Writer, body []byte) error {
	var history view.ReleaseHistory
	if err := decoded(body, &history); err != nil {
		return err
	}
	var rows [][]string
	for _, r := range history.Revisions {
		chart, description := r.ChartVersion, cell(w, r.Description, 80)
		if r.Chart != history.Module && r.Chart != "" {
			chart = r.Chart + " " + chart
		}
		if r.Error != "" {
			description = cell(w, r.Error, 80)
		}
		rows = append(rows, []string{fmt.Sprint(r.Revision), at(r.Updated), r.Status, chart, r.AppVersion, description})
	}
	err := table(w, "No revision of module "+history.Module+" is recorded: it has no chart, or Helm has not run yet.", "REVISION UPDATED STATUS CHART APP DESCRIPTION", rows)
	if older := history.Recorded - len(history.Revisions); err == nil && older > 0 {
		_, err = fmt.Fprintf(notes(w), "\n%s left out; --max shows more.\n", view.Count(older, "older revision"))
	}
	return err
}

// Diff prints what differs between two revisions of a module's release.
func Diff(c *cli.Config) *cobra.Command {
	a, names := &asking{config: c}, &completer{c}
	var from, to int
	cmd := &cobra.Command{
		Use: "diff MODULE", Short: "Print what differs between two revisions of a module's release",
		Long: `Prints what differs between the manifests of two revisions of a module's release, object by object, without Helm hooks:
by default between the two newest ones. history MODULE lists them. What the next run would change shows module
render MODULE --diff, and what others have changed module drift MODULE.`,
		Example:           "  addon-operator diff ingress-nginx\n  addon-operator diff ingress-nginx --from 3 --to 7",
		Args:              cli.OneArg("the name of one module, as 'dns' of 010-dns"),
		ValidArgsFunction: first(names.modules),
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{}
			for name, revision := range map[string]int{"from": from, "to": to} {
				if cmd.Flags().Changed(name) {
					query.Set(name, strconv.Itoa(revision))
				}
			}
			return a.show(cmd, "/module/"+url.PathEscape(args[0])+"/diff.json", query, diffText)
		},
	}
	a.flags(cmd, "text", "json", "yaml")
	cmd.Flags().IntVar(&from, "from", 0, "the older revision; without it, the one before --to")
	cmd.Flags().IntVar(&to, "to", 0, "the newer revision; without it, the newest one")
	return cmd
}

func diffText(w io.Writer, body []byte) error {
	var diff view.RevisionDiff
	if err := decoded(body, &diff); err != nil {
		return err
	}
	if len(diff.Changes) == 0 {
		_, err := fmt.Fprintf(w, "No object differs between the revisions %d and %d of %s.\n", diff.From, diff.To, diff.Module)
		return err
	}
	t := &planText{colored: colored(w)}
	t.line("", "What revision %d of %s has changed since revision %d:", diff.To, diff.Module, diff.From)
	verbs := map[string]string{"added": "create", "removed": "delete"}
	for _, c := range diff.Changes {
		t.object(view.ObjectPlan{Object: c.Object, Verb: verbs[c.Action], Diff: c.Diff})
	}
	if diff.Cut != "" {
		t.line(yellow, "Note: %s.", diff.Cut)
	}
	// Colors are its own, and each line is printable already.
	if p, ok := w.(printable); ok {
		w = p.Writer
	}
	_, err := io.WriteString(w, t.String())
	return err
}
