package server

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

func unixPath(address string) (path string, ok bool) { return strings.CutPrefix(address, "unix:") }

// walk visits all actors of a dump.
func walk(nodes []*supervisor.Node, visit func(*supervisor.Node)) {
	for _, n := range nodes {
		visit(n)
		walk(n.Children, visit)
	}
}

// tree is the dump as an audience may see it.
func (s Source) tree(who audience) []*supervisor.Node {
	tree := s.Inspector.Tree()
	if who == insider {
		return tree
	}
	walk(tree, func(n *supervisor.Node) {
		n.LastFailure, n.Stack = "", ""
		switch status := n.Status.(type) {
		case supervisor.RunStatus:
			status.Error = hidden(status.Error)
			n.Status = status
		case view.ModuleStatus:
			status.Failing = hideErrors(status.Failing)
			if w := status.Waiting; w != nil {
				shown := *w
				shown.Message = ""
				status.Waiting = &shown
			}
			n.Status = status
		case view.GlobalStatus:
			status.Failing = hideErrors(status.Failing)
			n.Status = status
		case view.StandbyStatus: // why a module is cold may be what its hooks printed
			status.Cold = slices.Clone(status.Cold)
			for i, why := range status.Cold {
				name, _, _ := strings.Cut(why, ":")
				status.Cold[i] = name + ": " + hidden(why)
			}
			n.Status = status
		case view.ConvergeStatus: // as the reason of a refusal, a problem of a schema may show a value
			status.Problems = hideProblems(status.Problems)
			n.Status = status
		case view.ConfigStatus: // the reason may show the value that a schema refuses
			status.Refused = hidden(status.Refused)
			n.Status = status
		}
	})
	return tree
}

func hideErrors(tasks []view.FailingTask) []view.FailingTask {
	out := slices.Clone(tasks)
	for i := range out {
		out[i].Error = hidden(out[i].Error)
	}
	return out
}

func hideProblems(problems map[string][]string) map[string][]string {
	out := make(map[string][]string, len(problems))
	for owner, list := range problems {
		out[owner] = []string{fmt.Sprintf("its files have %d problems; ", len(list)) + hidden("why")}
	}
	return out
}

func hidden(err string) string {
	if err == "" {
		return ""
	}
	return "the log and the debug address show why"
}

// namedQueue is a queue with its name, taken from a dump.
type namedQueue struct {
	name string
	view.QueueStatus
}

// queues lists the queues, main first, then by name (J5), and the runs by task.
func queues(tree []*supervisor.Node) (all []namedQueue, runs map[string]supervisor.RunStatus) {
	runs = map[string]supervisor.RunStatus{}
	walk(tree, func(n *supervisor.Node) {
		switch s := n.Status.(type) {
		case view.QueueStatus:
			_, name, _ := strings.Cut(n.Path, "/queue/")
			all = append(all, namedQueue{name, s})
		case supervisor.RunStatus:
			if i := strings.LastIndex(n.Path, "/run/"); i >= 0 { // the last: a module may be called run
				runs[n.Path[i+len("/run/"):]] = s
			}
		}
	})
	slices.SortFunc(all, func(a, b namedQueue) int {
		main := func(q namedQueue) int {
			if q.name == messages.MainQueue {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(main(a), main(b)), cmp.Compare(a.name, b.name))
	})
	return all, runs
}

func queueLength(tree []*supervisor.Node, name string) int {
	all, _ := queues(tree)
	for _, q := range all {
		if q.name == name {
			return q.Length
		}
	}
	return 0
}

// writeQueues is the page of seed 003: what each queue holds, without values.
func writeQueues(w io.Writer, tree []*supervisor.Node) {
	all, runs := queues(tree)
	writeQueueList(w, all, runs)
}

func writeQueueList(w io.Writer, all []namedQueue, runs map[string]supervisor.RunStatus) {
	total := 0
	for _, q := range all {
		total += q.Length
		if q.Length == 0 {
			fmt.Fprintf(w, "Queue %q is empty.\n", q.name)
			continue
		}
		fmt.Fprintf(w, "Queue %q: %d tasks\n", q.name, q.Length)
		for i, t := range q.Tasks() {
			line := strings.TrimSpace(fmt.Sprintf("%s %s %s", t.Kind, t.Owner, t.About))
			if t.Triggers > 1 {
				line += fmt.Sprintf(" (%d triggers)", t.Triggers)
			}
			fmt.Fprintf(w, "%4d. %s  [%s] queued %s ago\n", i+1, line, t.Cause, time.Since(t.QueuedAt).Round(time.Second))
			if run, ok := runs[t.ID]; ok && i == 0 && q.InProgress {
				fmt.Fprintf(w, "      in progress for %s: %s\n", time.Since(q.Since).Round(time.Second), run)
			}
		}
		if shown := len(q.Head); shown < q.Length {
			fmt.Fprintf(w, "      … and %d more\n", q.Length-shown)
		}
	}
	fmt.Fprintf(w, "%d tasks in %d queues.\n", total, len(all))
}

// writeConditions says in a line each what a person should know about readiness.
func writeConditions(w io.Writer, tree []*supervisor.Node) {
	walk(tree, func(n *supervisor.Node) {
		switch s := n.Status.(type) {
		case view.OperatorReporter:
			if text := s.Operator().String(); text != "" {
				fmt.Fprintf(w, "operator: %s\n", text)
			}
		case view.StandbyStatus:
			fmt.Fprintf(w, "standby: %s\n", s)
		case view.ConvergeStatus:
			fmt.Fprintf(w, "converge: %s\n", s)
		case view.ConfigStatus:
			fmt.Fprintf(w, "config: %s\n", s)
		case view.MonitorsReporter:
			fmt.Fprintf(w, "monitors: %s\n", s.Monitors())
		case view.ModuleStatus:
			_, name, _ := strings.Cut(n.Path, "/module/")
			fmt.Fprintf(w, "module %s: %s\n", name, s)
		}
	})
}
