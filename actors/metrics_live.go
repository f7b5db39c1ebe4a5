package actors

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// Sources are what states are read from. A scrape calls the functions in its own goroutine, several
// scrapes at the same time, so they must not ask an actor: one that is busy would hold up the page.
type Sources struct {
	Actors *supervisor.Inspector
	// Critical: a module whose run fails holds the others up (failure policy block).
	Critical bool
	// Leadership returns who leads; nil when this replica is alone.
	Leadership func() view.Leadership
	// Hanging lists the hooks that hang, the longest first.
	Hanging func() []view.RunningHook
}

// Watch adds the metrics that are read from the sources. A later call replaces the sources: the
// metrics may outlive an operator, as in tests that restart it. Calls must not overlap.
func (m *Metrics) Watch(s Sources) {
	if s.Leadership == nil { // who is alone leads
		s.Leadership = func() view.Leadership { return view.Leadership{Leading: true} }
	}
	if m.live.sources.Swap(&s) != nil {
		return // declared and registered by an earlier call
	}
	for _, declare := range []func() func(scrape){m.live.actors, m.live.bindings, m.live.queues, m.live.modules, m.live.converge, m.live.leadership, m.live.hanging} {
		m.live.collect = append(m.live.collect, declare())
	}
	m.Registry.MustRegister(m.live)
}

// live are metrics that are made at the moment of a scrape, from what actors publish about
// themselves: they need not be kept up to date, and what is gone has no series. Each method without
// an argument declares some of them and returns the function that collects them.
//
// A counter among them must be one in its source, too: Prometheus takes a number that falls for a
// restart.
type live struct {
	declared *declared
	// sources is nil before Watch; later calls replace it while scrapes read.
	sources atomic.Pointer[Sources]
	// states and collect are complete before live is registered, so scrapes read them without a
	// lock.
	states  []*state
	collect []func(scrape)
}

// state is one of these metrics. Its labels are positional: emit takes values in the order in which
// live.state was given the names.
type state struct {
	*prometheus.Desc
	kind prometheus.ValueType
}

// scrape is one moment: all metrics of a scrape see the same statuses.
type scrape struct {
	*Sources
	statuses map[string]supervisor.Status // by the path of the actor
	out      chan<- prometheus.Metric
}

// emit sends one series; the values belong to the labels of the metric. The same labels must not be
// emitted twice in a scrape: the registry leaves the second series out and reports an error. A
// wrong number of labels is a bug and panics.
func (s scrape) emit(of *state, value float64, labels ...string) {
	s.out <- prometheus.MustNewConstMetric(of.Desc, of.kind, value, labels...)
}

// published is the status of the only actor that publishes this type. It is zero when no actor
// does: before the start, and in a follower, which has no converge and no queues.
func published[S any](s scrape) (status S) {
	for _, one := range s.statuses {
		if status, ok := one.(S); ok {
			return status
		}
	}
	return status
}

// named calls see with each status of a type and the name in its path: of
// "operator/module/dns" dns.
func named[S any](s scrape, see func(name string, status S)) {
	for path, one := range s.statuses {
		if status, ok := one.(S); ok {
			_, path, _ = strings.Cut(path, "/")
			_, name, _ := strings.Cut(path, "/") // of a queue it may have slashes
			see(name, status)
		}
	}
}

// Describe implements prometheus.Collector. By it the registry notices a name that is taken.
func (l *live) Describe(out chan<- *prometheus.Desc) {
	for _, s := range l.states {
		out <- s.Desc
	}
}

// Collect implements prometheus.Collector.
func (l *live) Collect(out chan<- prometheus.Metric) {
	sources := l.sources.Load()
	s := scrape{sources, sources.Actors.Statuses(), out}
	for _, collect := range l.collect {
		collect(s)
	}
}

// state declares one. By the naming rules of Prometheus counters, and only counters, end with
// _total, so the name decides the type.
func (l *live) state(name, help string, labels ...string) *state {
	kind, value := "gauge", prometheus.GaugeValue
	if strings.HasSuffix(name, "_total") {
		kind, value = "counter", prometheus.CounterValue
	}
	f := l.declared.describe(kind, name, help, labels...)
	s := &state{prometheus.NewDesc(f.Name, help, labels, nil), value}
	l.states = append(l.states, s)
	return s
}

// actors are by type of actor: their number does not grow with the modules.
func (l *live) actors() func(scrape) {
	count := l.state("actors", "Actors by state: idle, busy, or suspended after a failure.", "actor", "state")
	length := l.state("actor_mailbox_length", "Messages waiting in mailboxes.", "actor")
	restarts := l.state("actor_restarts_total", "Retries of failed tasks, by the type of the actor. It is always the worker of a task: a crash of any other actor ends the process.", "actor")
	return func(s scrape) {
		for kind, all := range s.Actors.Summaries() {
			for _, state := range []string{supervisor.Idle, supervisor.Busy, supervisor.Suspended} {
				s.emit(count, float64(all.Count[state]), kind, state)
			}
			s.emit(length, float64(all.Messages), kind)
		}
		s.emit(restarts, float64(s.Actors.Restarts()), "worker")
	}
}

// bindings are the states of the watches of bindings. A hook may have two bindings of one name in
// one queue, and series must be unique: their objects are added up, and the first state is shown.
// A binding has a series for its present state only, not a zero for each of the others: most of the
// page would be zeros.
func (l *live) bindings() func(scrape) {
	labels := []string{"module", "hook", "binding", "queue", "kind"}
	objects := l.state("kube_snapshot_objects", "Objects in the snapshot of a binding.", labels...)
	errors := l.state("kube_jq_filter_errors_total", "Objects on which the jqFilter of a binding failed; they have no filterResult.", labels...)
	states := l.state("kube_binding_state", "1 for the state of a binding's snapshot: syncing, complete, waiting-for-kind, forbidden, too-large, stale.", append(labels, "state")...)
	type key struct{ module, hook, binding, queue, kind string }
	return func(s scrape) {
		count, failed, phases := map[key]int{}, map[key]uint64{}, map[key]string{}
		for _, b := range published[view.MonitorsStatus](s).Bindings {
			k := key{messages.ModuleOf(b.Owner), b.Hook, b.Binding, b.Queue, b.Kind}
			count[k] += b.Objects
			failed[k] += b.FilterErrors
			if _, seen := phases[k]; !seen {
				phases[k] = b.Phase
			}
		}
		for k, n := range count {
			s.emit(objects, float64(n), k.module, k.hook, k.binding, k.queue, k.kind)
			s.emit(errors, float64(failed[k]), k.module, k.hook, k.binding, k.queue, k.kind)
			s.emit(states, 1, k.module, k.hook, k.binding, k.queue, k.kind, phases[k])
		}
	}
}

// queues are the lengths of queues, the tasks at their heads, and what waits for hooks in them. The
// head is first in QueueStatus.Head, which lists all tasks that have begun: others may be held or
// have gone past it (F6).
func (l *live) queues() func(scrape) {
	length := l.state("tasks_queue_length", "Tasks in a queue, including the one in progress.", "queue")
	head := l.state("tasks_queue_head_info", "1 for the task that a queue is working on, or starts next.", "queue", "module", "task_type", "hook")
	since := l.state("tasks_queue_head_seconds", "How long the task at the head has been in progress, including the delays between attempts.", "queue")
	many := l.state("tasks_queue_compaction_tasks_by_hook", "Triggers that wait for a hook, if there are more than 20; its next run serves all of them.", "queue_name", "hook")
	triggers := l.state("tasks_queue_triggers", "Events and ticks that wait in a queue; one task of a hook contains all that wait for it.", "queue")
	return func(s scrape) {
		named(s, func(queue string, q view.QueueStatus) {
			if len(q.Head) > 0 {
				kind, _ := q.Head[0].Work.Describe()
				s.emit(head, 1, queue, messages.ModuleOf(q.Head[0].Owner), kind, q.Head[0].Hook())
			}
			s.emit(length, float64(q.Length), queue)
			s.emit(triggers, float64(q.Triggers), queue)
			if q.InProgress {
				s.emit(since, seconds(q.Since), queue)
			}
			for hook, n := range q.Crowded { // few: the queue publishes only hooks with many triggers
				s.emit(many, float64(n), queue, hook)
			}
		})
	}
}

// modules are what modules publish about themselves. Series of a disabled module end, except those
// that say that it is disabled, and its maintenance (I9). A module whose directory is gone keeps
// these, too, because its actor lives on.
func (l *live) modules() func(scrape) {
	info := l.state("mm_module_info", "1 for each module. critical is true if a failing run of a module holds up the others (module failure policy block).", "module", "enabled", "critical")
	enabled := l.state("mm_module_enabled", "1 while the module is enabled. version is the version of the chart that was applied last.", "module", "version")
	maintenance := l.state("mm_module_maintenance", "1 while the module is under maintenance; state is its mode.", "module", "state")
	parked := l.state("module_parked", "1 while the module is parked: its run or delete fails, or takes long, and goes on outside of the main queue.", "module")
	unhealthy := l.state("module_unhealthy", "1 while objects of the module's release have failed, or have been in progress for longer than ten minutes. addon-operator module list shows them.", "module")
	return func(s scrape) {
		states := map[string]string{}
		for _, m := range view.Modules(s.statuses, nil, nil, time.Now()) {
			states[m.Name] = m.State
		}
		named(s, func(name string, m view.ModuleStatus) {
			s.emit(info, 1, name, strconv.FormatBool(m.Enabled), strconv.FormatBool(s.Critical))
			s.emit(enabled, number(m.Enabled), name, m.Version)
			if m.Maintenance != "" { // also of a disabled module, whose release is kept
				s.emit(maintenance, 1, name, m.Maintenance)
			}
			if !m.Enabled {
				return // I9
			}
			s.emit(parked, number(m.Parked), name)
			s.emit(unhealthy, number(states[name] == view.Unhealthy), name)
		})
	}
}

// converge is whether all modules are in the state that is wanted, and what a person has to decide.
// These have a series at any time, with 0 for no or nothing, so that an alert can tell "no" from
// "no operator".
func (l *live) converge() func(scrape) {
	converged := l.state("converged", "1 when the first converge is over and no reload of all modules is in progress.")
	held := l.state("purges_held", "Releases without a module directory that are not purged until a person confirms it.")
	refused := l.state("config_values_refused", "1 while the ConfigMap is refused, or deleted, and the last valid values are in force.")
	return func(s scrape) {
		now := published[view.ConvergeStatus](s)
		s.emit(converged, number(now.Ready && now.Phase == view.ConvergeIdle))
		releases := 0
		if now.HeldPurge != nil {
			releases = len(now.HeldPurge.Releases)
		}
		s.emit(held, float64(releases))
		s.emit(refused, number(published[view.ConfigStatus](s).Refused != ""))
	}
}

// leadership is who leads.
func (l *live) leadership() func(scrape) {
	leads := l.state("leader", "1 while this replica leads, 0 while it is a standby.")
	transitions := l.state("leader_transitions_total", "How often the leadership moved from one replica to another.")
	return func(s scrape) {
		now := s.Leadership()
		s.emit(leads, number(now.Leading))
		s.emit(transitions, float64(now.Transitions))
	}
}

// hanging are the hooks that hang; a run that is over has no series.
func (l *live) hanging() func(scrape) {
	running := l.state("hook_hanging_seconds", "How long a hook or an enabled script has been running. Reported after the first minute.", "module", "hook", "binding")
	type key struct{ module, hook, binding string }
	return func(s scrape) {
		shown := map[key]bool{}
		for _, h := range s.Hanging() { // of parallel runs of one binding the longest, which comes first
			k := key{h.Module, h.Hook, h.Binding}
			if !shown[k] {
				shown[k] = true
				s.emit(running, seconds(h.Began), k.module, k.hook, k.binding)
			}
		}
	}
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
