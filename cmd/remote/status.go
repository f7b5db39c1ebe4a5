package remote

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
	"addon-operator/messages/view"
)

// overview is what status shows: the page of modules, and under queues the page of queues. With -o
// json it is what the operator has answered, with all keys.
type overview struct {
	Headline, Stage string
	Modules         []listedModule
	Global          view.GlobalStatus
	HeldPurge       *view.HeldPurge
	GlobalProblems  []string
	Leadership      *view.Leadership
	Config          view.ConfigStatus
	Queues          struct{ Active []listedQueue }
}

// doing describes what the queue does now, in the words of the operator: its status has the time until
// the next attempt only as text.
func (q listedQueue) doing(w io.Writer) string {
	text := view.Count(q.TasksCount, "task")
	if len(q.Tasks) == 0 {
		return text
	}
	text += ", first " + cell(w, strings.Join(slices.DeleteFunc([]string{q.Tasks[0].Kind, q.Tasks[0].Owner, q.Tasks[0].About}, func(t string) bool { return t == "" }), " "), 100)
	// These words are fixed (J5); describeRun in package server writes them.
	switch wait, failed := strings.CutPrefix(q.Status, "sleep after fail for "); {
	case failed:
		text += ": next attempt in " + wait
	case q.Status != "":
		text += ": in progress"
	}
	return text
}

// Status is the command status: how everything is, on one screen, with what to do next.
func Status(c *cli.Config) *cobra.Command {
	a := &asking{config: c}
	cmd := &cobra.Command{
		Use: "status", Short: "Print the state of the modules: what fails and why, what runs now, what to try next",
		Long: `Prints the state of the modules: how many fail, wait and are ready, the worst first; each problem with its error
and what to do next; and what the queues do now.`,
		Example: "  addon-operator status\n  addon-operator status --namespace addons --context production --watch",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.repeat(cmd, func(w io.Writer) error { return a.status(cmd, w) })
		},
	}
	a.format(cmd, "text", "json", "yaml")
	a.watching(cmd)
	return cmd
}

// status joins two pages, which may be of slightly different times. They stay JSON until they are
// printed, so that unknown keys are shown, too.
func (a *asking) status(cmd *cobra.Command, w io.Writer) error {
	modules, err := a.page(cmd.Context(), "/module/list", nil)
	if err != nil {
		return err
	}
	queues, err := a.page(cmd.Context(), "/queue/list", nil)
	if err != nil {
		return err
	}
	var all map[string]json.RawMessage
	if err := decoded(modules, &all); err != nil {
		return err
	}
	// Both bodies become one document as they are.
	all["queues"] = queues
	return a.printData(w, all, overviewText)
}

// overviewText is the overview for people. Without a headline the operator is of a version that has
// none.
func overviewText(w io.Writer, body []byte) error {
	var o overview
	if err := decoded(body, &o); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s\n%s", cmp.Or(o.Headline, "an operator of an older version"), cmp.Or(o.Stage, "running"))
	if o.Leadership != nil {
		fmt.Fprintf(w, "; this replica is the %s", o.Leadership)
	}
	fmt.Fprintln(w)
	if problems := o.problems(w); len(problems) > 0 {
		fmt.Fprintln(w, "\nPROBLEMS")
		writeList(w, problems)
	}
	var now [][]string
	for _, q := range o.Queues.Active {
		now = append(now, []string{q.Name, q.doing(w)})
	}
	if len(now) > 0 {
		fmt.Fprintln(w, "\nQUEUES")
		writeList(w, now)
	}
	return nil
}

// writeList writes names in a column, each with a text of any length.
func writeList(w io.Writer, rows [][]string) {
	longest := 0
	for _, row := range rows {
		longest = max(longest, len(row[0]))
	}
	for _, row := range rows {
		fmt.Fprintf(w, "  %-*s  %s\n", longest, row[0], row[1])
	}
}

// problems are rows with the owner of a problem, and the problem. Each is followed by a row with the
// next step, unless the problem contains it. They are not cut here but in withEnd, because the
// end of an error matters.
func (o overview) problems(w io.Writer) (rows [][]string) {
	uncut, _ := w.(printable) // for functions that cut cells
	uncut.Writer, uncut.whole = w, true
	add := func(who, problem, next string) {
		rows = append(rows, []string{who, withEnd(w, problem)})
		if next != "" {
			rows = append(rows, []string{"", "next: " + proposed(w, next)})
		}
	}
	if notice := o.Config.Notice(); notice != "" {
		add("configuration", notice, o.Config.Next())
	}
	if o.HeldPurge != nil {
		add("purge", o.HeldPurge.String(), "")
	}
	for i, f := range o.Global.Failing {
		// Next is about the first task that fails, so each task gets a status that begins with it.
		add("global hooks", failing(uncut, f), view.GlobalStatus{Failing: o.Global.Failing[i:]}.Next())
	}
	for _, p := range o.GlobalProblems {
		add("global hooks", cell(uncut, p, 0), "")
	}
	for _, m := range o.Modules {
		// problem is empty for a module that is only off, or on its way.
		problem := m.problem(uncut, o.HeldPurge)
		// On one screen there is room for when the next attempt is, which the table of modules
		// lacks.
		if len(m.Hanging) == 0 && m.Waiting == nil && len(m.Failing) > 0 {
			problem = failing(uncut, m.Failing[0])
		}
		if problem != "" {
			add(m.Name, problem, m.Next())
		}
	}
	return rows
}

// withEnd shortens a text on a terminal, and returns it whole elsewhere. The middle is left out: the
// beginning names what failed, and the end, which often is the last line of a hook, the reason.
func withEnd(w io.Writer, text string) string {
	const beginning, end = 500, 300
	runes := []rune(text)
	if p, ok := w.(printable); ok && p.whole || len(runes) <= beginning+end {
		return text
	}
	return string(runes[:beginning]) + " … " + string(runes[len(runes)-end:])
}

// failing describes a failing task: the number of attempts, the time of the next one, and the error.
func failing(w io.Writer, f view.FailingTask) string {
	text := fmt.Sprintf("%s failed %s", f.Task, view.Count(f.Attempts, "time"))
	if wait := time.Until(f.RetryAt); wait > 0 {
		text += ", next attempt in " + wait.Round(time.Second).String()
	}
	return text + ": " + cell(w, f.Error, 160)
}
