package actors

import (
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/hooks"
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
	for _, f := range liveFamilies() {
		kind, value := "gauge", prometheus.GaugeValue
		if strings.HasSuffix(f.Name, "_total") { // by the naming rules of Prometheus counters, and only they, end so
			kind, value = "counter", prometheus.CounterValue
		}
		whole := m.describe(kind, f.Name, f.Help, f.Labels...)
		m.live.states[f.Name] = state{prometheus.NewDesc(whole.Name, f.Help, f.Labels, nil), value}
	}
	m.Registry.MustRegister(m.live)
}

// live are metrics that are made at the moment of a scrape, from what actors publish about
// themselves: they need not be kept up to date, and what is gone has no series.
//
// A counter among them must be one in its source, too: Prometheus takes a number that falls for a
// restart.
type live struct {
	// sources is nil before Watch; later calls replace it while scrapes read.
	sources atomic.Pointer[Sources]
	// states are complete before live is registered, so scrapes read them without a lock.
	states map[string]state
}

// state is one of these metrics.
type state struct {
	*prometheus.Desc
	kind prometheus.ValueType
}

// liveFamilies are these metrics, without prefix and type. scrape.emit has values for the labels, in their order.
func liveFamilies() []Family {
	labels := func(names ...string) []string { return names }
	watch := labels("module", "hook", "binding", "queue", "kind")
	return []Family{
		{Name: "actor_mailbox_length", Help: "Messages waiting in mailboxes.", Labels: labels("actor")},
		{Name: "actor_restarts_total", Help: "Retries of failed tasks, by the type of the actor. It is always the worker of a task: a crash of any other actor ends the process.", Labels: labels("actor")},
		{Name: "kube_snapshot_objects", Help: "Objects in the snapshot of a binding.", Labels: watch},
		{Name: "kube_jq_filter_errors_total", Help: "Objects on which the jqFilter of a binding failed; they have no filterResult.", Labels: watch},
		{Name: "kube_binding_state", Help: "1 for the state of a binding's snapshot: syncing, complete, waiting-for-kind, forbidden, too-large, stale.", Labels: append(watch, "state")},
		{Name: "binding_count", Help: "Bindings of a hook.", Labels: labels("module", "hook")},
		{Name: "hook_hanging_seconds", Help: "How long a hook or an enabled script has been running. Reported after the first minute.", Labels: labels("module", "hook", "binding")},
		{Name: "tasks_queue_length", Help: "Tasks in a queue, including the one in progress.", Labels: labels("queue")},
		{Name: "tasks_queue_head_info", Help: "1 for the task that a queue is working on, or starts next.", Labels: labels("queue", "module", "task_type", "hook")},
		{Name: "tasks_queue_head_seconds", Help: "How long the task at the head has been in progress, including the delays between attempts.", Labels: labels("queue")},
		{Name: "tasks_queue_compaction_tasks_by_hook", Help: "Triggers that wait for a hook, if there are more than 20; its next run serves all of them.", Labels: labels("queue_name", "hook")},
		{Name: "tasks_queue_triggers", Help: "Events and ticks that wait in a queue; one task of a hook contains all that wait for it.", Labels: labels("queue")},
		{Name: "mm_module_info", Help: "1 for each module. critical is true if a failing run of a module holds up the others (module failure policy block).", Labels: labels("module", "enabled", "critical")},
		{Name: "mm_module_enabled", Help: "1 while the module is enabled. version is the version of the chart that was applied last.", Labels: labels("module", "version")},
		{Name: "mm_module_maintenance", Help: "1 while the module is under maintenance; state is its mode.", Labels: labels("module", "state")},
		{Name: "module_parked", Help: "1 while the module is parked: its run or delete fails, or takes long, and goes on outside of the main queue.", Labels: labels("module")},
		{Name: "module_unhealthy", Help: "1 while objects of the module's release have failed, or have been in progress for longer than ten minutes. addon-operator module list shows them.", Labels: labels("module")},
		{Name: "module_drifted_objects", Help: "Objects of the module's release that other clients have changed, according to the last check for drift.", Labels: labels("module")},
		{Name: "converged", Help: "1 when the first converge is over and no reload of all modules is in progress."},
		{Name: "purges_held", Help: "Releases without a module directory that are not purged until a person confirms it."},
		{Name: "config_values_refused", Help: "1 while the ConfigMap is refused, or deleted, and the last valid values are in force."},
		{Name: "leader", Help: "1 while this replica leads, 0 while it is a standby."},
		{Name: "leader_transitions_total", Help: "How often the leadership moved from one replica to another."},
	}
}

// scrape is one moment: all metrics of a scrape see the same statuses.
type scrape struct {
	*Sources
	states   map[string]state
	statuses map[string]supervisor.Status // by the path of the actor
	out      chan<- prometheus.Metric
}

// emit sends one series of a metric of liveFamilies. The same labels must not be
// emitted twice in a scrape: the registry leaves the second series out and reports an error. A
// wrong number of labels, or another name, is a bug and panics.
func (s scrape) emit(name string, value float64, labels ...string) {
	of := s.states[name]
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

// Describe implements prometheus.Collector. By it the registry notices a name that is taken.
func (l *live) Describe(out chan<- *prometheus.Desc) {
	for _, s := range l.states {
		out <- s.Desc
	}
}

// Collect implements prometheus.Collector.
func (l *live) Collect(out chan<- prometheus.Metric) {
	sources := l.sources.Load()
	s := scrape{sources, l.states, sources.Actors.Statuses(), out}
	for kind, all := range s.Actors.Summaries() { // by type: their number does not grow with the modules
		s.emit("actor_mailbox_length", float64(all.Messages), kind)
	}
	s.emit("actor_restarts_total", float64(s.Actors.Restarts()), "worker")
	s.bindings()
	s.queues()
	s.modules()
	s.hanging()
	s.converge()
}

// bindings are the states of the watches of bindings. A hook may have two bindings of one name in
// one queue, and series must be unique: their objects are added up, and the first state is shown.
// A binding has a series for its present state only, not a zero for each of the others: most of the
// page would be zeros.
func (s scrape) bindings() {
	all := map[[5]string]messages.BindingState{}
	for _, b := range published[view.MonitorsStatus](s).Bindings {
		labels := [5]string{messages.ModuleOf(b.Owner), b.Hook, b.Binding, b.Queue, b.Kind}
		if first, seen := all[labels]; seen {
			b.Phase, b.Objects, b.FilterErrors = first.Phase, b.Objects+first.Objects, b.FilterErrors+first.FilterErrors
		}
		all[labels] = b
	}
	for labels, b := range all {
		s.emit("kube_snapshot_objects", float64(b.Objects), labels[:]...)
		s.emit("kube_jq_filter_errors_total", float64(b.FilterErrors), labels[:]...)
		s.emit("kube_binding_state", 1, append(labels[:], b.Phase)...)
	}
}

// queues are the lengths of queues, the tasks at their heads, and what waits for hooks in them.
func (s scrape) queues() {
	for path, status := range s.statuses {
		q, ok := status.(view.QueueStatus)
		if !ok {
			continue
		}
		_, queue, _ := strings.Cut(path, "/queue/") // which may have slashes
		if len(q.Head) > 0 {
			kind, _ := q.Head[0].Work.Describe()
			s.emit("tasks_queue_head_info", 1, queue, messages.ModuleOf(q.Head[0].Owner), kind, q.Head[0].Hook())
		}
		s.emit("tasks_queue_length", float64(q.Length), queue)
		s.emit("tasks_queue_triggers", float64(q.Triggers), queue)
		if q.InProgress {
			s.emit("tasks_queue_head_seconds", seconds(q.Since), queue)
		}
		for hook, n := range q.Crowded { // few: the queue publishes only hooks with many triggers
			s.emit("tasks_queue_compaction_tasks_by_hook", float64(n), queue, hook)
		}
	}
}

// modules are what modules publish about themselves. Series of a disabled module end, except those
// that say that it is disabled, and its maintenance (I9). A module whose directory is gone keeps
// these, too, because its actor lives on.
func (s scrape) modules() {
	s.hooks("", published[view.GlobalStatus](s).Loaded)
	for _, m := range view.Modules(s.statuses, nil, nil, time.Now()) {
		s.emit("mm_module_info", 1, m.Name, strconv.FormatBool(m.Enabled), strconv.FormatBool(s.Critical))
		s.emit("mm_module_enabled", number(m.Enabled), m.Name, m.Version)
		if m.Maintenance != "" { // also of a disabled module, whose release is kept
			s.emit("mm_module_maintenance", 1, m.Name, m.Maintenance)
		}
		if !m.Enabled {
			continue // I9
		}
		s.hooks(m.Name, m.Loaded)
		s.emit("module_parked", number(m.Parked), m.Name)
		s.emit("module_unhealthy", number(m.State == view.Unhealthy), m.Name)
		if m.Drifted != nil && !m.Drifted(false).Checked.IsZero() { // before, a zero would say that nothing has drifted
			s.emit("module_drifted_objects", float64(len(m.Drift)), m.Name)
		}
	}
}

// hooks are the bindings of hooks of all types: a hook that binds beforeHelm and two crontabs has three.
func (s scrape) hooks(module string, loaded []hooks.Hook) {
	for _, h := range loaded {
		s.emit("binding_count", float64(len(h.Config.Orders)+len(h.Config.Schedules)+len(h.Config.Kubernetes)), module, h.Name)
	}
}

// hanging are the hooks that hang; a run that is over has no series.
func (s scrape) hanging() {
	shown := map[[3]string]bool{}
	for _, h := range s.Hanging() { // of parallel runs of one binding the longest, which comes first
		labels := [3]string{h.Module, h.Hook, h.Binding}
		if !shown[labels] {
			shown[labels] = true
			s.emit("hook_hanging_seconds", seconds(h.Began), labels[:]...)
		}
	}
}

// converge is whether all modules are in the state that is wanted, what a person has to decide, and who leads.
// These have a series at any time, with 0 for no or nothing, so that an alert can tell "no" from
// "no operator".
func (s scrape) converge() {
	now, leads := published[view.ConvergeStatus](s), s.Leadership()
	s.emit("converged", number(now.Ready && now.Phase == view.ConvergeIdle))
	releases := 0
	if now.HeldPurge != nil {
		releases = len(now.HeldPurge.Releases)
	}
	s.emit("purges_held", float64(releases))
	s.emit("config_values_refused", number(published[view.ConfigStatus](s).Refused != ""))
	s.emit("leader", number(leads.Leading))
	s.emit("leader_transitions_total", float64(leads.Transitions))
}

func number(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
