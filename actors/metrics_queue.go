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
	length      *prometheus.GaugeVec
	wait        *prometheus.CounterVec
	actions     *prometheus.HistogramVec
	compactions *prometheus.CounterVec
}

func (m *Metrics) queueMetrics() queueMetrics {
	return queueMetrics{
		length: m.gauge("tasks_queue_length", "Tasks in a queue, the one in progress included.", "queue"),
		wait:   m.counter("task_wait_in_queue_seconds_total", "Time that tasks waited in their queue.", "module", "hook", "binding", "queue"),
		actions: m.histogramOf([]float64{1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1}, "tasks_queue_action_duration_seconds",
			"Time that a queue took to add, take or drop tasks.", "queue_name", "queue_action"),
		compactions: m.counter("tasks_queue_compaction_operations_total", "Runs of a hook that served several tasks at once.", "queue_name", "hook"),
	}
}

func (m *Metrics) queueLength(queue string, length int) {
	m.queue.length.WithLabelValues(queue).Set(float64(length))
}

// queueActed notes how long an action of a queue took.
func (m *Metrics) queueActed(queue, action string, began time.Time) {
	m.queue.actions.WithLabelValues(queue, action).Observe(since(began))
}

// taskStarted notes that a task has left the line; merged are the tasks it serves beside
// its own.
func (m *Metrics) taskStarted(t messages.Task, merged int) {
	hook, binding := hookOf(t), ""
	if w, ok := t.Work.(messages.RunHook); ok {
		binding = string(w.Binding)
	}
	m.queue.wait.WithLabelValues(moduleLabel(t.Owner), hook, binding, t.Queue).Add(since(t.QueuedAt))
	if merged > 0 {
		m.queue.compactions.WithLabelValues(t.Queue, hook).Inc()
	}
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
