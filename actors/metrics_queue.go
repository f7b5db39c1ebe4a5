package actors

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/messages"
)

// What a queue does, as tasks_queue_action_duration_seconds names it (I2).
const (
	addLast     = "AddLast"
	addFirst    = "AddFirst"
	removeFirst = "RemoveFirst"
	filter      = "Filter"
)

// queueMetrics are what queues count.
type queueMetrics struct {
	wait        *prometheus.CounterVec
	actions     *prometheus.HistogramVec
	compactions *prometheus.CounterVec
	overflows   *prometheus.CounterVec
}

func (m *Metrics) queueMetrics() queueMetrics {
	return queueMetrics{
		wait: m.counter("task_wait_in_queue_seconds_total", "Time that tasks waited in their queue.", "module", "hook", "binding", "queue"),
		actions: m.histogramOf([]float64{1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1}, "tasks_queue_action_duration_seconds",
			"Time that a queue took to add, take or drop tasks.", "queue_name", "queue_action"),
		compactions: m.counter("tasks_queue_compaction_operations_total", "Runs of a hook that served several triggers at once.", "queue_name", "hook"),
		overflows:   m.counter("tasks_queue_overflows_total", "How often too many events waited for a hook, so that a Synchronization replaced those of a binding.", "queue_name", "hook"),
	}
}

// forgetQueue removes the series of a queue that has ended.
func (m *Metrics) forgetQueue(queue string) {
	m.queue.wait.DeletePartialMatch(prometheus.Labels{"queue": queue})
	for _, v := range []labelled{m.queue.actions, m.queue.compactions, m.queue.overflows} {
		v.DeletePartialMatch(prometheus.Labels{"queue_name": queue})
	}
}

// queueActed notes how long an action of a queue took.
func (m *Metrics) queueActed(queue, action string, began time.Time) {
	m.queue.actions.WithLabelValues(queue, action).Observe(since(began))
}

// taskStarted notes that a task has left the line.
func (m *Metrics) taskStarted(t messages.Task) {
	hook := hookOf(t)
	work, _ := t.Work.(messages.RunHook)
	m.queue.wait.WithLabelValues(moduleLabel(t.Owner), hook, bindingOf(t), t.Queue).Add(since(t.QueuedAt))
	if work.Carried() > 1 {
		m.queue.compactions.WithLabelValues(t.Queue, hook).Inc()
	}
}

// resynchronized notes that events that waited were dropped.
func (m *Metrics) resynchronized(queue, hook string) {
	m.queue.overflows.WithLabelValues(queue, hook).Inc()
}

// bindingOf is the name of the first binding that a task runs a hook for, or empty.
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

// hookOf is the hook that a task runs, or empty.
func hookOf(t messages.Task) string {
	switch w := t.Work.(type) {
	case messages.RunHook:
		return w.Hook
	case messages.SynchronizeHook:
		return w.Hook
	}
	return ""
}
