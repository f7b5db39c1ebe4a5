package server

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// tree is the dump as an audience may see it. For the public it removes all that may hold output of
// hooks or Helm, or values (J7): new fields of a status that may do so must be removed here, too.
//
// The nodes are made for each call, so they may be changed. The statuses in them are shared with
// the actors that published them: a status is copied, with its slices and maps, before a part of it
// is replaced.
func (s Source) tree(who audience) []*supervisor.Node {
	tree := s.Inspector.Tree()
	if who == insider {
		return tree
	}
	supervisor.Walk(tree, func(n *supervisor.Node) {
		n.LastFailure, n.Stack = "", ""
		switch status := n.Status.(type) {
		case supervisor.RunStatus:
			status.Error = hidden(status.Error)
			n.Status = status
		case view.ModuleStatus:
			status.Failing = hideErrors(status.Failing)
			if status.Held != "" {
				status.Held = "the upgrade is held back; " + hidden("why")
			}
			n.Status = status
		case view.GlobalStatus:
			status.Failing = hideErrors(status.Failing)
			n.Status = status
		case view.ConvergeStatus: // as the reason of a refusal, a problem of a schema may show a value
			status.Problems, status.Off = hideProblems(status.Problems), hideDiscovery(status.Off)
			n.Status = status
		case view.ConfigStatus: // the reason may show the value that a schema refuses
			status.Refused = hidden(status.Refused)
			n.Status = status
		}
	})
	return tree
}

// hideErrors keeps which tasks fail, how often and when they are retried.
func hideErrors(tasks []view.FailingTask) []view.FailingTask {
	out := slices.Clone(tasks)
	for i := range out {
		out[i].Error = hidden(out[i].Error)
	}
	return out
}

// hideProblems keeps how many problems the files of each owner have.
func hideProblems(problems map[string][]string) map[string][]string {
	out := make(map[string][]string, len(problems))
	for owner, list := range problems {
		out[owner] = []string{"its files have " + view.Count(len(list), "problem") + "; " + hidden("why")}
	}
	return out
}

// hideDiscovery hides why a discovery fails: the error has the last lines of an enabled script.
func hideDiscovery(off map[string]string) map[string]string {
	out, fails := maps.Clone(off), view.DiscoveryFails(errors.New(""))
	for module, why := range out {
		if err, ok := strings.CutPrefix(why, fails); ok {
			out[module] = fails + hidden(err)
		}
	}
	return out
}

// hidden replaces an error. No error stays none, because empty means that there is none.
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

// queues lists the queues of a dump, main first, then by name (J5), and the status of each run by
// the ID of its task, which is how the head of a queue finds its run. A task whose run has not
// started, or that waits, has none.
func queues(tree []*supervisor.Node) (all []namedQueue, runs map[string]supervisor.RunStatus) {
	runs = map[string]supervisor.RunStatus{}
	supervisor.Walk(tree, func(n *supervisor.Node) {
		switch s := n.Status.(type) {
		case view.QueueStatus:
			_, name, _ := strings.Cut(n.Path, "/queue/")
			all = append(all, namedQueue{name, s})
		case supervisor.RunStatus:
			if _, task, ok := supervisor.SplitRun(n.Path); ok {
				runs[task] = s
			}
		}
	})
	key := func(q namedQueue) string {
		if q.name == messages.MainQueue {
			return ""
		}
		return q.name
	}
	slices.SortFunc(all, func(a, b namedQueue) int { return cmp.Compare(key(a), key(b)) })
	return all, runs
}

// queueLength is the number of tasks in a queue; 0 for one that does not exist.
func queueLength(tree []*supervisor.Node, name string) int {
	all, _ := queues(tree)
	for _, q := range all {
		if q.name == name {
			return q.Length
		}
	}
	return 0
}

// writeQueueList is the page of seed 003: what each queue holds, without values (J2). It writes a line for each task,
// and the total of all queues given. A status has at most the first 100 tasks of its queue; the others are counted.
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
			// The run is shown only for the head of a queue that works. The run of a task that waits
			// for its next attempt has this state itself.
			if run, ok := runs[t.ID]; ok && i == 0 && q.InProgress {
				fmt.Fprintf(w, "      in progress for %s: %s\n", time.Since(q.Since).Round(time.Second), strings.TrimSuffix(run.String(), ": "))
			}
		}
		if shown := min(len(q.Head), view.ShownTasks); shown < q.Length {
			fmt.Fprintf(w, "      … and %d more\n", q.Length-shown)
		}
	}
	fmt.Fprintf(w, "%d tasks in %d queues.\n", total, len(all))
}

// writeConditions writes what readiness depends on, a line for each, in the order of the tree.
func writeConditions(w io.Writer, tree []*supervisor.Node) {
	supervisor.Walk(tree, func(n *supervisor.Node) {
		switch s := n.Status.(type) {
		case view.OperatorStatus:
			if text := s.String(); text != "" {
				fmt.Fprintf(w, "operator: %s\n", text)
			}
		case view.ConvergeStatus:
			fmt.Fprintf(w, "converge: %s\n", s)
		case view.ConfigStatus:
			fmt.Fprintf(w, "config: %s\n", s)
		case view.MonitorsStatus:
			fmt.Fprintf(w, "monitors: %s\n", s)
		case view.ModuleStatus:
			_, name, _ := strings.Cut(n.Path, "/module/")
			fmt.Fprintf(w, "module %s: %s\n", name, s)
		}
	})
}
