package metrics

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/hooks"
	"addon-operator/messages"
)

// Bindings counts changes of objects that kubernetes bindings watch.
type Bindings struct {
	filter, event *prometheus.SummaryVec
	missing       *prometheus.CounterVec
}

func newBindings(d *declared) Bindings {
	watch := []string{"module", "hook", "binding", "queue", "kind"}
	return Bindings{
		filter:  d.summary("kube_jq_filter_duration_seconds", "Duration of the jqFilter of a binding on one object.", watch...),
		event:   d.summary("kube_event_duration_seconds", "Time from the arrival of a change of an object to its task in a queue.", watch...),
		missing: d.counter("binding_monitor_missing_total", "Changes of objects that arrived after the watch of their binding was stopped, together with the module.", "binding"),
	}
}

// Filter is the filter of a binding, which is timed. The goroutines of its watch call it for each
// object that arrives, so its series is looked up once, here, and not with each object.
func (b Bindings) Filter(key messages.WatchKey, of hooks.KubernetesBinding) func(map[string]any) (json.RawMessage, error) {
	duration := b.filter.WithLabelValues(watchLabels(key, of)...)
	return func(object map[string]any) (json.RawMessage, error) {
		began := time.Now()
		defer func() { duration.Observe(seconds(began)) }()
		return of.Filter.Apply(object)
	}
}

// Queued notes how long a change took to become a task. A change that is held until the
// Synchronization of its binding has ended is left out: that wait is the hook's (C40).
func (b Bindings) Queued(key messages.WatchKey, of hooks.KubernetesBinding, arrived time.Time) {
	b.event.WithLabelValues(watchLabels(key, of)...).Observe(seconds(arrived))
}

// Missing counts a change whose watch has ended: it was in the mailbox by then. Nothing is lost.
// The label names the binding by its place, because its name went with the watch.
func (b Bindings) Missing(key messages.WatchKey) {
	b.missing.WithLabelValues(key.Binding.Hook + " kubernetes[" + strconv.Itoa(key.Binding.Index) + "]").Inc()
}

// watchLabels are in the order in which newBindings names them.
func watchLabels(key messages.WatchKey, b hooks.KubernetesBinding) []string {
	return []string{messages.ModuleOf(key.Owner), key.Binding.Hook, b.Name, b.Queue, b.Kind}
}
