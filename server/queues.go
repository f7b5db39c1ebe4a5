package server

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// queueDump is the list of queues in the form that scripts parse (J5), with more fields. Its names
// must not change.
type queueDump struct {
	Active  []queueEntry `json:"active"`
	Empty   []queueEntry `json:"empty,omitempty"`
	Summary queueSummary `json:"summary"`
}

// queueEntry is a queue. Status is empty while its first task waits, so that no run has begun.
type queueEntry struct {
	Name       string      `json:"name"`
	TasksCount int         `json:"tasksCount"`
	Status     string      `json:"status,omitempty"`
	Tasks      []taskEntry `json:"tasks,omitempty"`
}

// taskEntry is a task. Failures and Error are those of its run, and 0 and empty before it.
type taskEntry struct {
	Index int `json:"index"`
	// Description is for people. What is in it has fields below, which programs should read.
	Description string `json:"description"`
	view.QueuedTask
	Failures int    `json:"failures,omitempty"`
	Error    string `json:"error,omitempty"`
}

// queueSummary counts tasks of all queues, whichever are listed.
type queueSummary struct {
	MainQueueTasks int         `json:"mainQueueTasks"`
	OtherQueues    otherQueues `json:"otherQueues"`
	TotalTasks     int         `json:"totalTasks"`
}

type otherQueues struct {
	Active int `json:"active"`
	Empty  int `json:"empty"`
	Tasks  int `json:"tasks"`
}

// queues answers /queue, /queue/list and /queue/main, also for a queue without tasks.
func (s router) queues(r *http.Request) (any, error) {
	all, runs := queues(s.tree(s.who))
	if r.URL.Query().Get("errors") == "false" { // for the live page, which shows them with their modules
		for id, run := range runs {
			run.Error = ""
			runs[id] = run
		}
	}
	var known []string
	for _, q := range all {
		known = append(known, q.name)
	}
	d := display{data: dumpQueues(all, runs, r.URL.Query().Get("showEmpty") == "true"), names: known}
	name := r.URL.Query().Get("queue")
	if r.URL.Path == "/queue/main" {
		name = messages.MainQueue
	}
	if name != "" {
		i := slices.Index(known, name)
		if i < 0 {
			return nil, unknown("queue", name, known)
		}
		all = all[i : i+1]
		d.data, d.names = dumpQueue(all[0], runs), known[i:i+1]
	}
	d.text = func(w io.Writer, _ bool) { writeQueueList(w, all, runs) }
	return d, nil
}

// dumpQueues lists the queues that have tasks; with showEmpty also the others, apart.
func dumpQueues(all []namedQueue, runs map[string]supervisor.RunStatus, showEmpty bool) queueDump {
	dump := queueDump{Active: []queueEntry{}}
	for _, q := range all {
		sum := &dump.Summary
		sum.TotalTasks += q.Length
		switch {
		case q.name == messages.MainQueue:
			sum.MainQueueTasks = q.Length
		case q.Length == 0:
			sum.OtherQueues.Empty++
		default:
			sum.OtherQueues.Active++
			sum.OtherQueues.Tasks += q.Length
		}
		if q.Length > 0 {
			dump.Active = append(dump.Active, dumpQueue(q, runs))
		} else if showEmpty {
			dump.Empty = append(dump.Empty, dumpQueue(q, runs))
		}
	}
	return dump
}

// dumpQueue describes up to 100 tasks of a queue, which is what its status has.
func dumpQueue(q namedQueue, runs map[string]supervisor.RunStatus) queueEntry {
	entry := queueEntry{Name: q.name, TasksCount: q.Length}
	for i, t := range q.Tasks() {
		run := runs[t.ID]
		if i == 0 && q.InProgress {
			entry.Status = describeRun(run)
		}
		entry.Tasks = append(entry.Tasks, taskEntry{
			Index: i + 1, Description: describeTask(q.name, t, run), QueuedTask: t, Failures: run.Attempt, Error: run.Error,
		})
	}
	return entry
}

// sleeping is how the state of a queue begins whose first task has failed (J5).
const sleeping = "sleep after fail for "

// describeRun describes what a queue does with its first task, in words that scripts parse (J5).
func describeRun(run supervisor.RunStatus) string {
	if run.RetryAt.IsZero() {
		return "run first task"
	}
	return fmt.Sprintf("%s%s", sleeping, max(0, time.Until(run.RetryAt)).Round(time.Second))
}

// describeTask is a line about a task: kind, queue, what it is about, failures, separated by
// colons.
func describeTask(queue string, t view.QueuedTask, run supervisor.RunStatus) string {
	text := strings.Join([]string{t.Kind, queue, cmp.Or(t.About, t.Owner)}, ":")
	if run.Attempt > 0 {
		text += strings.TrimSuffix(fmt.Sprintf(":failures %d:%s", run.Attempt, run.Error), ":")
	}
	return text
}
