package remote

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
)

// listedQueue is a queue in the answers of /queue/list and /queue/NAME. Tasks are the first 100;
// TasksCount counts all.
type listedQueue struct {
	Name       string
	TasksCount int
	Status     string // what it does with the first task; empty when that waits
	Tasks      []struct {
		ID, Kind, Owner, About, Error string
		QueuedAt                      time.Time
		Failures                      int
	}
}

// listedQueues reads the answer of /queue/list, or that of one queue, which alone has a name at its
// top.
func listedQueues(body []byte) ([]listedQueue, error) {
	var list struct {
		Active, Empty []listedQueue
		listedQueue
	}
	if err := decoded(body, &list); err != nil {
		return nil, err
	}
	if list.Name != "" {
		return []listedQueue{list.listedQueue}, nil
	}
	return append(list.Active, list.Empty...), nil
}

// namesOfQueues are what -o name prints of queues; namesOfTasks, of tasks.
func namesOfQueues(body []byte) (names []string, err error) {
	all, err := listedQueues(body)
	for _, q := range all {
		names = append(names, q.Name)
	}
	return names, err
}

func namesOfTasks(body []byte) (names []string, err error) {
	all, err := listedQueues(body)
	for _, q := range all {
		for _, t := range q.Tasks {
			names = append(names, t.ID)
		}
	}
	return names, err
}

// queueTable has a line for each queue, with what it does: a queue whose first task has no run yet
// waits.
func queueTable(w io.Writer, body []byte) error {
	all, err := listedQueues(body)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, q := range all {
		first, doing := "", q.Status
		if len(q.Tasks) > 0 {
			t := q.Tasks[0]
			first, doing = strings.Join(strings.Fields(t.Kind+" "+t.Owner+" "+t.About), " "), cmp.Or(q.Status, "waits")
		}
		rows = append(rows, []string{q.Name, fmt.Sprint(q.TasksCount), doing, cell(w, first, 100)})
	}
	return table(w, "There are no queues.", "NAME TASKS DOING FIRST", rows)
}

// taskTable has a line for each task, in the order of its queue.
func taskTable(w io.Writer, body []byte) error {
	all, err := listedQueues(body)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, q := range all {
		for _, t := range q.Tasks {
			rows = append(rows, []string{q.Name, t.ID, t.Kind, t.Owner, cell(w, t.About, 60), ago(t.QueuedAt), fmt.Sprint(t.Failures), cell(w, t.Error, 100)})
		}
	}
	return table(w, "No task waits.", "QUEUE ID KIND OWNER ABOUT QUEUED FAILURES ERROR", rows)
}

// getQueues is get queues or get tasks: lists of rows, as kubectl makes them, while queue list
// prints what the operator has written for people.
func getQueues(c *cli.Config, use, alias, short string, rows tableWriter, named func([]byte) ([]string, error)) *cobra.Command {
	a, names := &asking{config: c, names: named}, &completer{c}
	name, _, _ := strings.Cut(use, " ")
	cmd := &cobra.Command{
		Use: use, Short: short, Aliases: []string{alias}, Example: "  addon-operator get " + name + "\n  addon-operator get " + name + " main -o yaml",
		Args: cli.AtMost(1, "the name of one queue, or none for all"),
		RunE: func(cmd *cobra.Command, args []string) error {
			page := "list"
			if len(args) == 1 {
				page = url.PathEscape(args[0])
			}
			// Empty queues are shown, too: a row shows that nothing waits. /queue/NAME ignores the
			// parameter.
			return a.show(cmd, "/queue/"+page, url.Values{"showEmpty": {"true"}}, rows)
		},
		ValidArgsFunction: first(names.queues),
	}
	a.format(cmd, "table", "json", "yaml")
	a.watching(cmd)
	return cmd
}
