package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/messages"
)

// What a queue does, as tasks_queue_action_duration_seconds names it (I2): a task comes to the tail
// or to the head, or becomes the one in progress.
const (
	AddLast     = "AddLast"
	AddFirst    = "AddFirst"
	RemoveFirst = "RemoveFirst"
)

// Queues counts what queues do. The labels queue and queue_name mean the same: these metrics have
// names and labels of older operators, which dashboards use.
type Queues struct {
	wait        *prometheus.CounterVec
	actions     *prometheus.HistogramVec
	compactions *prometheus.CounterVec
	overflows   *prometheus.CounterVec
}

func newQueues(d *declared) Queues {
	return Queues{
		wait: d.counter("task_wait_in_queue_seconds_total", "Time that tasks waited in their queue.", "module", "hook", "binding", "queue"),
		actions: d.histogramOf([]float64{1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1}, "tasks_queue_action_duration_seconds",
			"Time that a queue took to add, take or drop tasks.", "queue_name", "queue_action"),
		compactions: d.counter("tasks_queue_compaction_operations_total", "Runs of a hook that served several triggers at once.", "queue_name", "hook"),
		overflows:   d.counter("tasks_queue_overflows_total", "How often too many events waited for a hook, so that a Synchronization replaced the events of a binding.", "queue_name", "hook"),
	}
}

// Acted notes how long an action of a queue took.
func (q Queues) Acted(queue, action string, began time.Time) {
	q.actions.WithLabelValues(queue, action).Observe(seconds(began))
}

// TaskStarted notes that a task has left the line. The pauses between attempts at it do not count
// as waiting: it is at the head then.
func (q Queues) TaskStarted(t messages.Task) {
	hook := t.Hook()
	work, _ := t.Work.(messages.RunHook)
	q.wait.WithLabelValues(messages.ModuleOf(t.Owner), hook, bindingOf(t), t.Queue).Add(seconds(t.QueuedAt))
	if work.Carried() > 1 {
		q.compactions.WithLabelValues(t.Queue, hook).Inc()
	}
}

// Overflowed notes that events that waited for a hook were dropped (P5).
func (q Queues) Overflowed(queue, hook string) {
	q.overflows.WithLabelValues(queue, hook).Inc()
}

// bindingOf is the name of the first binding that a task runs a hook for; empty for tasks that run
// no hook. A RunHook task without triggers has a Synchronization to repeat (Resync).
func bindingOf(t messages.Task) string {
	switch w := t.Work.(type) {
	case messages.RunHook:
		if len(w.Resync) > 0 {
			return w.Resync[0].Name
		}
		return w.Triggers[0].Context.Binding
	case messages.SynchronizeHook:
		return w.Names[0]
	}
	return ""
}
