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

// History is the command history: the recorded revisions of a module's release. Without --max the
// operator decides how many.
func History(c *cli.Config) *cobra.Command {
	a, names := &asking{config: c, names: namesIn("revision", "revisions")}, &completer{c}
	var most int
	cmd := &cobra.Command{
		Use: "history MODULE", Short: "Print the recorded revisions of a module's release, the newest first",
		Long: `Prints the recorded revisions of a module's release, the newest first: when each was installed, its status, the version
of the chart and of the application, and Helm's description. The option --helm-history-max sets how many are kept.`,
		Example:           "  addon-operator history ingress-nginx\n  addon-operator history ingress-nginx --max 3 -o yaml",
		Args:              cli.OneArg("the name of one module, such as 'dns' for 010-dns"),
		ValidArgsFunction: first(names.modules),
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{}
			// The default in the help is that of the operator, which may be of another version.
			if cmd.Flags().Changed("max") {
				query.Set("max", strconv.Itoa(most))
			}
			return a.show(cmd, "/module/"+url.PathEscape(args[0])+"/history", query, historyTable)
		},
	}
	a.format(cmd, "table", "json", "yaml")
	cmd.Flags().IntVar(&most, "max", 20, "number of revisions, at most 100")
	return cmd
}

// historyTable has a line for each revision. The chart usually has the name of the module; only
// another name is shown. A record that cannot be read has its error in place of a description.
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

// Diff is the command diff: the differences between two revisions of a module's release. Revisions
// that are not given are chosen by the operator, which has the list.
func Diff(c *cli.Config) *cobra.Command {
	a, names := &asking{config: c}, &completer{c}
	var from, to int
	cmd := &cobra.Command{
		Use: "diff MODULE", Short: "Print the differences between two revisions of a module's release",
		Long: `Prints the differences between the manifests of two revisions of a module's release, object by object, without Helm
hooks. The default is to compare the two newest revisions; history MODULE lists them. module render MODULE --diff shows
what the next run would change, and module drift MODULE shows what others have changed.`,
		Example:           "  addon-operator diff ingress-nginx\n  addon-operator diff ingress-nginx --from 3 --to 7",
		Args:              cli.OneArg("the name of one module, such as 'dns' for 010-dns"),
		ValidArgsFunction: first(names.modules),
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{}
			// 0 is sent when it is given: the operator refuses it with a reason.
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

// diffText prints the differences as a plan prints them.
func diffText(w io.Writer, body []byte) error {
	var diff view.RevisionDiff
	if err := decoded(body, &diff); err != nil {
		return err
	}
	if len(diff.Changes) == 0 {
		_, err := fmt.Fprintf(w, "No differences between revisions %d and %d of %s.\n", diff.From, diff.To, diff.Module)
		return err
	}
	t := &planText{colored: colored(w)}
	t.line("", "Changes in revision %d of %s since revision %d:", diff.To, diff.Module, diff.From)
	// Actions of a difference, as verbs of a plan; one that is not named is a change (mark).
	verbs := map[string]string{"added": "create", "removed": "delete"}
	for _, c := range diff.Changes {
		t.object(view.ObjectPlan{Object: c.Object, Verb: verbs[c.Action], Diff: c.Diff})
	}
	// The operator leaves out differences that are too long, and reports it.
	if diff.Cut != "" {
		t.line(yellow, "Note: %s.", diff.Cut)
	}
	// The colours are escapes that printable would make visible. planText has made each line
	// printable before it coloured it, so the text goes to the writer below.
	if p, ok := w.(printable); ok {
		w = p.Writer
	}
	_, err := io.WriteString(w, t.String())
	return err
}
