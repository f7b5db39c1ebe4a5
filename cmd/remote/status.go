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

// overview is what the page of modules and the page of queues say together.
type overview struct {
	Headline, Stage string
	Modules         []listedModule
	Global          view.GlobalStatus
	HeldPurge       *view.HeldPurge
	GlobalProblems  []string
	Leadership      *view.Leadership
	Config          view.ConfigStatus
	Queues          struct{ Active []activeQueue }
}

// activeQueue is a queue with tasks.
type activeQueue struct {
	Name       string
	TasksCount int
	Status     string // what it does with the first task; empty when that waits
	Tasks      []struct{ Kind, Owner, About string }
}

// doing says what the queue does now.
func (q activeQueue) doing(w io.Writer) string {
	text := view.Count(q.TasksCount, "task")
	if len(q.Tasks) == 0 {
		return text
	}
	text += ", first " + cell(w, strings.Join(slices.DeleteFunc([]string{q.Tasks[0].Kind, q.Tasks[0].Owner, q.Tasks[0].About}, func(t string) bool { return t == "" }), " "), 100)
	switch wait, failed := strings.CutPrefix(q.Status, "sleep after fail for "); {
	case failed:
		text += ": next attempt in " + wait
	case q.Status != "":
		text += ": in progress"
	}
	return text
}

// Status prints how everything is, on one screen.
func Status(c *cli.Config) *cobra.Command {
	a := &asking{config: c}
	cmd := &cobra.Command{
		Use: "status", Short: "Print how the modules are: what fails and why, what is done now, what to try next",
		Long: `Prints how the modules are: how many fail, wait and are ready, the worst first; what is wrong, with its error; what the
queues do now; and the commands that say more.`,
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
	all["queues"] = queues
	body, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return a.print(w, append(body, '\n'), func(w io.Writer, body []byte) error { return overviewText(w, body, cmd.Root().CommandPath()) })
}

// overviewText is the overview for people, who call this program so.
func overviewText(w io.Writer, body []byte, program string) error {
	var o overview
	if err := decoded(body, &o); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s\n%s", cmp.Or(o.Headline, "an operator of an older version"), cmp.Or(o.Stage, "running"))
	if o.Leadership != nil {
		fmt.Fprintf(w, "; this replica is the %s", o.Leadership)
	}
	fmt.Fprintln(w)
	problems, modules := o.problems(w)
	if len(problems) > 0 {
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
	if len(modules) == 0 {
		return nil
	}
	fmt.Fprintln(w, "\nNEXT")
	const most = 3
	for _, name := range modules[:min(most, len(modules))] {
		fmt.Fprintf(w, "  %s why %s\n", program, name)
	}
	return nil
}

// writeList writes names, each with what is said about it.
func writeList(w io.Writer, rows [][]string) {
	longest := 0
	for _, row := range rows {
		longest = max(longest, len(row[0]))
	}
	for _, row := range rows {
		fmt.Fprintf(w, "  %-*s  %s\n", longest, row[0], row[1])
	}
}

// problems are who has one and which, and the modules among them that have run.
func (o overview) problems(w io.Writer) (problems [][]string, modules []string) {
	if notice := o.Config.Notice(); notice != "" {
		problems = append(problems, []string{"configuration", notice})
	}
	if o.HeldPurge != nil {
		problems = append(problems, []string{"purge", o.HeldPurge.String()})
	}
	for _, f := range o.Global.Failing {
		problems = append(problems, []string{"global hooks", failing(w, f)})
	}
	for _, p := range o.GlobalProblems {
		problems = append(problems, []string{"global hooks", cell(w, p, 160)})
	}
	for _, m := range o.Modules {
		problem := m.problem(w, o.HeldPurge)
		if len(m.Hanging) == 0 && m.Waiting == nil && len(m.Failing) > 0 {
			problem = failing(w, m.Failing[0])
		}
		if problem == "" {
			continue
		}
		problems = append(problems, []string{m.Name, problem})
		if m.LastRun != nil {
			modules = append(modules, m.Name)
		}
	}
	return problems, modules
}

// failing says what fails, and when it is tried again.
func failing(w io.Writer, f view.FailingTask) string {
	text := fmt.Sprintf("%s failed %s", f.Task, view.Count(f.Attempts, "time"))
	if wait := time.Until(f.RetryAt); wait > 0 {
		text += ", next attempt in " + wait.Round(time.Second).String()
	}
	return text + ": " + cell(w, f.Error, 160)
}
