package actors

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/messages"
	"addon-operator/supervisor"
)

// live are metrics that are made at the moment of a scrape, of what actors publish about
// themselves: they need not be kept up to date, and what is gone has no series.
type live struct {
	descriptions []*prometheus.Desc
	collect      func(emit)
}

// emit sends one series; the values belong to the labels of the description.
type emit func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string)

// Describe implements prometheus.Collector.
func (l live) Describe(out chan<- *prometheus.Desc) {
	for _, d := range l.descriptions {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (l live) Collect(out chan<- prometheus.Metric) {
	l.collect(func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, value, labels...)
	})
}

// describe makes a description for [live].
func (m *Metrics) describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(m.prefix+name, help, labels, nil)
}

// registerLive registers metrics that collect makes at each scrape.
func (m *Metrics) registerLive(collect func(emit), descriptions ...*prometheus.Desc) {
	m.register(live{descriptions, collect})
}

// seen is what metrics look at when they are scraped.
type seen struct {
	actors     *supervisor.Inspector
	critical   bool // a module whose run fails holds the others up
	leadership func() messages.Leadership
	hanging    func() []messages.RunningHook
}

// watch adds the metrics that are read from the actors, and who leads. An operator that
// comes later with the same metrics takes the place of the one before.
func (m *Metrics) watch(s seen) {
	if s.leadership == nil { // who is alone leads
		s.leadership = func() messages.Leadership { return messages.Leadership{Leading: true} }
	}
	if m.seen.Swap(&s) != nil {
		return
	}
	m.actorMetrics()
	m.bindingStates()
	m.queueHeads()
	m.moduleStates()
	m.convergeState()
	m.leadershipState()
	m.hangingHooks()
}

func (m *Metrics) actors() *supervisor.Inspector { return m.seen.Load().actors }

// actorMetrics are by type of actor: their number does not grow with the modules.
func (m *Metrics) actorMetrics() {
	count := m.describe("actors", "Actors by what they are doing: idle, busy, or suspended after a failure.", "actor", "state")
	longest := m.describe("actor_state_seconds", "Longest time that an actor has been in its present state.", "actor", "state")
	length := m.describe("actor_mailbox_length", "Messages that wait in mailboxes.", "actor")
	processed := m.describe("actor_messages_total", "Messages that actors have handled.", "actor")
	restarts := m.describe("actor_restarts_total", "Failed tasks that were tried again, by the type of the actor: always the worker of a task. A crash of any other actor ends the process.", "actor")
	m.registerLive(func(emit emit) {
		for kind, s := range m.actors().Summaries() {
			for _, state := range []string{supervisor.Idle, supervisor.Busy, supervisor.Suspended} {
				emit(count, prometheus.GaugeValue, float64(s.Count[state]), kind, state)
				emit(longest, prometheus.GaugeValue, s.Longest[state].Seconds(), kind, state)
			}
			emit(length, prometheus.GaugeValue, float64(s.Messages), kind)
			emit(processed, prometheus.CounterValue, float64(s.Processed), kind)
			emit(restarts, prometheus.CounterValue, float64(s.Restarts), kind)
		}
	}, count, longest, length, processed, restarts)
}

// bindingStates are where the watches of bindings stand. A hook may have two bindings of
// one name in one queue: their objects are added up, and the first state is shown.
func (m *Metrics) bindingStates() {
	labels := []string{"module", "hook", "binding", "queue", "kind"}
	objects := m.describe("kube_snapshot_objects", "Objects in the snapshot of a binding.", labels...)
	errors := m.describe("kube_jq_filter_errors_total", "Objects on which the jqFilter of a binding failed; they have no filterResult.", labels...)
	states := m.describe("kube_binding_state", "1 for the state of a binding's snapshot: syncing, complete, waiting-for-kind, forbidden, too-large, stale.", append(labels, "state")...)
	type key struct{ owner, hook, binding, queue, kind string }
	m.registerLive(func(emit emit) {
		reporter, ok := m.actors().Status(monitorsPath).(messages.MonitorsReporter)
		if !ok {
			return
		}
		count, failed, phases := map[key]int{}, map[key]uint64{}, map[key]string{}
		for _, s := range reporter.Monitors().Bindings {
			k := key{moduleLabel(s.Owner), s.Hook, s.Binding, s.Queue, s.Kind}
			count[k] += s.Objects
			failed[k] += s.FilterErrors
			if _, seen := phases[k]; !seen {
				phases[k] = s.Phase
			}
		}
		for k, n := range count {
			emit(objects, prometheus.GaugeValue, float64(n), k.owner, k.hook, k.binding, k.queue, k.kind)
			emit(errors, prometheus.CounterValue, float64(failed[k]), k.owner, k.hook, k.binding, k.queue, k.kind)
			emit(states, prometheus.GaugeValue, 1, k.owner, k.hook, k.binding, k.queue, k.kind, phases[k])
		}
	}, objects, errors, states)
}

// queueHeads are the lengths of queues, the tasks at their heads, and what waits for hooks in them.
func (m *Metrics) queueHeads() {
	length := m.describe("tasks_queue_length", "Tasks in a queue, the one in progress included.", "queue")
	head := m.describe("tasks_queue_head_info", "1 for the task that a queue works at, or begins with next.", "queue", "module", "task_type", "hook")
	since := m.describe("tasks_queue_head_seconds", "How long the task at the head has been in progress, its waiting between attempts included.", "queue")
	many := m.describe("tasks_queue_compaction_tasks_by_hook", "Triggers that wait for a hook, when there are more than 20 of them; its next run serves them all.", "queue_name", "hook")
	triggers := m.describe("tasks_queue_triggers", "Events and ticks that wait in a queue; the task of a hook carries all that wait for it.", "queue")
	m.registerLive(func(emit emit) {
		for path, status := range m.actors().Statuses() {
			queue, ok := strings.CutPrefix(path, queuePath)
			s, isQueue := status.(messages.QueueStatus)
			if !ok || !isQueue {
				continue
			}
			if len(s.Head) > 0 {
				kind, _ := s.Head[0].Work.Describe()
				emit(head, prometheus.GaugeValue, 1, queue, moduleLabel(s.Head[0].Owner), kind, hookOf(s.Head[0]))
			}
			emit(length, prometheus.GaugeValue, float64(s.Length), queue)
			emit(triggers, prometheus.GaugeValue, float64(s.Triggers), queue)
			if s.InProgress {
				emit(since, prometheus.GaugeValue, time.Since(s.Since).Seconds(), queue)
			}
			for hook, n := range s.Crowded {
				emit(many, prometheus.GaugeValue, float64(n), queue, hook)
			}
		}
	}, length, head, since, many, triggers)
}

// moduleStates are what modules say of themselves.
func (m *Metrics) moduleStates() {
	info := m.describe("mm_module_info", "1 for each module. It is critical when a failing run of it holds the others up (module failure policy block).", "module", "enabled", "critical")
	enabled := m.describe("mm_module_enabled", "1 while the module is enabled. The version is that of the chart that was applied last.", "module", "version")
	succeeded := m.describe("module_last_success_timestamp_seconds", "When a run of the module last succeeded.", "module")
	failed := m.describe("module_last_failure_timestamp_seconds", "When a run or the delete of the module last failed.", "module")
	maintenance := m.describe("mm_module_maintenance", "1 while the module is under maintenance; state is its mode.", "module", "state")
	parked := m.describe("module_parked", "1 while the module is retried outside of the main queue (module failure policy isolate, or an API that it needs does not answer).", "module")
	m.registerLive(func(emit emit) {
		for path, status := range m.actors().Statuses() {
			name, ok := strings.CutPrefix(path, modulePath)
			s, isModule := status.(messages.ModuleStatus)
			if !ok || !isModule {
				continue
			}
			emit(info, prometheus.GaugeValue, 1, name, truth(s.Enabled), truth(m.seen.Load().critical))
			emit(enabled, prometheus.GaugeValue, number(s.Enabled), name, s.Version)
			if s.Maintenance != "" { // also of a disabled module, whose release is kept
				emit(maintenance, prometheus.GaugeValue, 1, name, s.Maintenance)
			}
			if !s.Enabled {
				continue // I9
			}
			emit(parked, prometheus.GaugeValue, number(s.Parked), name)
			if !s.Succeeded.IsZero() {
				emit(succeeded, prometheus.GaugeValue, unix(s.Succeeded), name)
			}
			if !s.Failed.IsZero() {
				emit(failed, prometheus.GaugeValue, unix(s.Failed), name)
			}
		}
	}, info, enabled, maintenance, succeeded, failed, parked)
}

// convergeState reports whether all modules are as they should be.
func (m *Metrics) convergeState() {
	converged := m.describe("converged", "1 when the first converge is over and no reload of all modules is in progress.")
	held := m.describe("purges_held", "Releases without a module directory that are not purged until a person allows it.")
	refused := m.describe("config_values_refused", "1 while the ConfigMap is refused, or deleted, and the last valid values are in force.")
	m.registerLive(func(emit emit) {
		s, ok := m.actors().Status(convergePath).(messages.ConvergeStatus)
		emit(converged, prometheus.GaugeValue, number(ok && s.Ready && s.Phase == messages.ConvergeIdle))
		releases := 0
		if s.HeldPurge != nil {
			releases = len(s.HeldPurge.Releases)
		}
		emit(held, prometheus.GaugeValue, float64(releases))
		config, _ := m.actors().Status(configPath).(messages.ConfigStatus)
		emit(refused, prometheus.GaugeValue, number(config.Refused != ""))
	}, converged, held, refused)
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func truth(yes bool) string {
	if yes {
		return "true"
	}
	return "false"
}
