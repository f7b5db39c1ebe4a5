package actors

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/hooks"
	"addon-operator/messages"
)

// maxSeries is how many series a hook may have. One for each of some hundred objects is usual;
// a number that grows without end would take the memory of the operator, and that of Prometheus.
const maxSeries = 1000

// hookReports are the series that hooks report through METRICS_PATH (I6, I7), and the Prometheus
// collector of /metrics/hooks. Runs of several hooks end at the same time; a scrape sees all of a run or nothing.
type hookReports struct {
	// Limit is how many series a hook may report; set it before hooks run.
	Limit    int
	reserved string // prefix of the operator's own metrics
	dropped  *prometheus.CounterVec
	mu       sync.Mutex
	now      map[reporter]reported // guarded by mu
}

// reporter is a hook that reports metrics; module is empty for global ones.
type reporter struct{ module, hook string }

// reported are the series of one hook.
type reported map[seriesKey]series

// seriesKey identifies a series of a hook: the name of the metric, and its labels as text.
type seriesKey struct{ name, labels string }

// series is one combination of labels; its maps are not changed.
type series struct {
	// action is the one of the first value, and decides the type: a gauge for set, a counter for
	// add, a histogram for observe.
	action hooks.MetricAction
	group  string // of the last value; empty for none, then the series stays (I8)
	// labels include hook and module; none is empty.
	labels map[string]string
	value  float64 // of histograms the sum
	// of histograms: values, and for each upper bound how many of them do not exceed it
	count   uint64
	buckets map[float64]uint64
}

func newReports(m *Metrics) *hookReports {
	return &hookReports{
		Limit: maxSeries, reserved: m.prefix, now: map[reporter]reported{},
		dropped: m.counter("hook_metrics_dropped_total", "Values that hooks reported for new series of metrics and that were dropped because the hook has too many series.", "module", "hook"),
	}
}

// actions are those of all series, by name, which decide their types: the registry leaves out series that have another
// type, and reports an error. If two hooks introduce one name with
// different types at the same moment, the type that comes first in the alphabet wins, so that each
// scrape decides the same.
func actions(now map[reporter]reported) map[string]hooks.MetricAction {
	all := map[string]hooks.MetricAction{}
	for _, own := range now {
		for key, s := range own {
			if action, ok := all[key.name]; !ok || s.action < action {
				all[key.name] = s.action
			}
		}
	}
	return all
}

// Check refuses what could not be shown together with what exists: a run whose metrics are refused
// has no effect at all (X27). It reserves nothing. Two hooks that introduce one name at the same
// moment may both pass, which actions and Collect resolve at each scrape.
func (r *hookReports) Check(written []hooks.Metric) error {
	if len(written) == 0 {
		return nil
	}
	r.mu.Lock()
	known := actions(r.now)
	r.mu.Unlock()
	for _, m := range written {
		if m.Action == hooks.ActionExpire { // it has a group, and no name
			continue
		}
		if err := r.conflict(m, known); err != nil {
			return fmt.Errorf("METRICS_PATH: metric %s: %w", m.Name, err)
		}
		known[m.Name] = m.Action
	}
	return nil
}

// conflict says why a metric cannot be on one page with those that are known: the registry would
// leave one of them out. Names of the
// operator and of the Go client are refused even while they have no series.
func (r *hookReports) conflict(m hooks.Metric, known map[string]hooks.MetricAction) error {
	for _, reserved := range []string{r.reserved, "go_", "process_"} {
		if strings.HasPrefix(m.Name, reserved) {
			return fmt.Errorf("names that begin with %s belong to the operator; rename the metric", reserved)
		}
	}
	if is := known[m.Name]; is != "" && is != m.Action {
		return fmt.Errorf("action %q conflicts with %q, which was used for this name before", m.Action, is)
	}
	// A histogram x has the series x_bucket, x_sum and x_count in the text of a page. No metric may
	// have such a name, whichever of the two comes first.
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(m.Name, suffix); ok && known[base] == hooks.ActionObserve {
			return fmt.Errorf("the histogram %s has a series of this name; rename the metric", base)
		}
		if m.Action == hooks.ActionObserve && known[m.Name+suffix] != "" {
			return fmt.Errorf("a histogram has a series %s, and there is a metric of this name; rename the metric", m.Name+suffix)
		}
	}
	return nil
}

// Add shows what one run of a hook wrote. Series of a group that the run mentions and does not
// report again vanish; groups belong to the hook (I7). New series beyond the limit are dropped and
// counted; it returns how many. It is called after the result of the run was committed, so it refuses nothing.
func (r *hookReports) Add(owner, hook string, written []hooks.Metric) (dropped int) {
	if len(written) == 0 {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	who := reporter{messages.ModuleOf(owner), hook}
	if r.now[who] == nil {
		r.now[who] = reported{}
	}
	if dropped = r.now[who].add(who, written, r.Limit); dropped > 0 {
		r.dropped.WithLabelValues(who.module, hook).Add(float64(dropped))
	}
	return dropped
}

// forget removes the series of hooks that are gone (I9). Those that a global hook reports with the
// name of a module in a label are the global hook's, and stay.
func (r *hookReports) forget(gone func(reporter) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.now, func(who reporter, _ reported) bool { return gone(who) })
}

// add takes over what one run of the hook has written. Groups that the run mentions are emptied
// first, so they begin with counters at zero and make room for new series. The limit never takes
// away what is shown: only values for new series, or more buckets, are dropped.
func (own reported) add(who reporter, written []hooks.Metric, limit int) (dropped int) {
	groups := map[string]bool{}
	for _, m := range written {
		if m.Group != "" {
			groups[m.Group] = true
		}
	}
	maps.DeleteFunc(own, func(_ seriesKey, s series) bool { return groups[s.group] })
	count := 0
	for _, s := range own {
		count += s.size()
	}
	for _, m := range written {
		if m.Action == hooks.ActionExpire {
			continue
		}
		labels := who.label(m.Labels)
		key := seriesKey{m.Name, fmt.Sprintf("%q", labels)} // fmt prints maps in the order of their keys
		before, known := own[key]
		if !known {
			before = series{action: m.Action, labels: labels}
		}
		after := before.and(m)
		more := after.size()
		if known {
			more -= before.size()
		}
		if more > 0 && count+more > limit {
			dropped++
			continue
		}
		own[key] = after
		count += more
	}
	return dropped
}

// label adds the labels of the operator, which win: a hook cannot report as another one. An empty
// label is the same as none to Prometheus, so it must not make a second series. A global hook may
// set module itself.
func (who reporter) label(labels map[string]string) map[string]string {
	all := map[string]string{}
	maps.Copy(all, labels)
	maps.DeleteFunc(all, func(_, value string) bool { return value == "" })
	all["hook"] = who.hook
	if who.module != "" {
		all["module"] = who.module
	}
	return all
}

// size counts as Prometheus does: a histogram has one series for each bucket, and three more.
func (s series) size() int {
	if s.action == hooks.ActionObserve {
		return len(s.buckets) + 3
	}
	return 1
}

// and returns the series with one more value. With other buckets than before a histogram
// starts again: what was counted cannot be spread over them.
func (s series) and(m hooks.Metric) series {
	s.group = m.Group
	switch m.Action {
	case hooks.ActionAdd:
		s.value += m.Value
	case hooks.ActionObserve:
		before := s.buckets
		if !slices.Equal(slices.Sorted(maps.Keys(before)), m.Buckets) {
			s.count, s.value, before = 0, 0, nil
		}
		s.count++
		s.value += m.Value
		s.buckets = map[float64]uint64{}
		for _, bound := range m.Buckets {
			if s.buckets[bound] = before[bound]; m.Value <= bound {
				s.buckets[bound]++
			}
		}
	default:
		s.value = m.Value
	}
	return s
}

// Describe implements prometheus.Collector: nothing is known in advance. To the registry that means
// an unchecked collector, whose consistency Check and Collect must see to.
func (r *hookReports) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. A series whose type is not that of its name is left out.
func (r *hookReports) Collect(out chan<- prometheus.Metric) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := actions(r.now)
	for who, own := range r.now {
		for key, s := range own {
			// A global hook may report in the name of a module; the module's hook of its name wins.
			other := reporter{s.labels["module"], who.hook}
			_, taken := r.now[other][key]
			if s.action == all[key.name] && (other == who || !taken) {
				out <- s.metric(key.name)
			}
		}
	}
}

// metric is the series as the registry takes it.
func (s series) metric(name string) (m prometheus.Metric) {
	var err error
	desc := prometheus.NewDesc(name, "Reported by a hook.", nil, s.labels)
	switch s.action {
	case hooks.ActionAdd:
		m, err = prometheus.NewConstMetric(desc, prometheus.CounterValue, s.value)
	case hooks.ActionObserve:
		m, err = prometheus.NewConstHistogram(desc, s.count, s.value, s.buckets)
	default:
		m, err = prometheus.NewConstMetric(desc, prometheus.GaugeValue, s.value)
	}
	if err != nil { // the scrape shows it; names and labels were checked when the hook wrote them
		return prometheus.NewInvalidMetric(desc, err)
	}
	return m
}
