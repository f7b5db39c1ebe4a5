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
// collector of /metrics/hooks. Runs of several hooks end at the same time.
type hookReports struct {
	// Limit is how many series a hook may report; set it before hooks run.
	Limit    int
	reserved string // prefix of the operator's own metrics
	dropped  *prometheus.CounterVec
	mu       sync.Mutex
	now      map[reporter]map[seriesKey]series // guarded by mu
}

// reporter is a hook that reports metrics; module is empty for global ones.
type reporter struct{ module, hook string }

// seriesKey identifies a series of a hook: the name of the metric, and its labels as text.
type seriesKey struct{ name, labels string }

// series is one combination of labels.
type series struct {
	prometheus.Metric                    // a Gauge, a Counter or a Histogram
	action            hooks.MetricAction // of the first value, which decides that
	group             string             // of the last value; empty for none, then the series stays (I8)
	buckets           []float64          // of a Histogram
}

func newReports(m *Metrics) *hookReports {
	return &hookReports{
		Limit: maxSeries, reserved: m.prefix, now: map[reporter]map[seriesKey]series{},
		dropped: m.counter("hook_metrics_dropped_total", "Values that hooks reported for new series of metrics and that were dropped because the hook has too many series.", "module", "hook"),
	}
}

// Check refuses what could not be shown together with what exists: a run whose metrics are refused has no effect at
// all (X27). It reserves nothing. Of two hooks that introduce one name with different types at the same moment, both
// may pass; the registry leaves out the series of one of them, and the next run of a hook is refused.
func (r *hookReports) Check(written []hooks.Metric) error {
	if len(written) == 0 {
		return nil
	}
	known := map[string]hooks.MetricAction{}
	r.mu.Lock()
	for _, own := range r.now {
		for key, s := range own {
			known[key.name] = s.action
		}
	}
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

// Add shows what one run of a hook wrote. Groups that the run mentions are emptied first: series that it does not
// report again vanish, its counters begin at zero, and there is room for new series. Groups belong to the hook (I7).
// The limit never takes away what is shown: only values for new series, or more buckets, are dropped, and
// counted; it returns how many. It is called after the result of the run was committed, so it refuses nothing.
func (r *hookReports) Add(owner, hook string, written []hooks.Metric) (dropped int) {
	if len(written) == 0 {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	who, groups, size := reporter{messages.ModuleOf(owner), hook}, map[string]bool{}, 0
	if r.now[who] == nil {
		r.now[who] = map[seriesKey]series{}
	}
	for _, m := range written {
		groups[m.Group] = m.Group != ""
	}
	own := r.now[who]
	maps.DeleteFunc(own, func(_ seriesKey, s series) bool { return groups[s.group] })
	for _, s := range own {
		size += s.size()
	}
	for _, m := range written {
		if m.Action == hooks.ActionExpire {
			continue
		}
		labels := who.label(m.Labels)
		key := seriesKey{m.Name, fmt.Sprintf("%q", labels)} // fmt prints maps in the order of their keys
		s, known := own[key]
		if !known || !slices.Equal(s.buckets, m.Buckets) { // what was counted cannot be spread over other buckets
			before := s.size()
			s = newSeries(m, labels)
			if more := s.size() - before; more > 0 && size+more > r.Limit {
				dropped++
				continue
			}
			size += s.size() - before
		}
		s.group = m.Group
		s.add(m.Value)
		own[key] = s
	}
	if dropped > 0 {
		r.dropped.WithLabelValues(who.module, hook).Add(float64(dropped))
	}
	return dropped
}

// forget removes the series of hooks that are gone (I9). Those that a global hook reports with the
// name of a module in a label are the global hook's, and stay.
func (r *hookReports) forget(gone func(reporter) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.now, func(who reporter, _ map[seriesKey]series) bool { return gone(who) })
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

// newSeries is a series without a value. Names, labels and buckets were checked when the hook wrote them.
func newSeries(m hooks.Metric, labels map[string]string) series {
	s := series{action: m.Action, buckets: m.Buckets}
	opts := prometheus.Opts{Name: m.Name, Help: "Reported by a hook.", ConstLabels: labels}
	switch m.Action {
	case hooks.ActionAdd:
		s.Metric = prometheus.NewCounter(prometheus.CounterOpts(opts))
	case hooks.ActionObserve:
		s.Metric = prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: m.Name, Help: opts.Help, ConstLabels: labels, Buckets: m.Buckets,
		})
	default:
		s.Metric = prometheus.NewGauge(prometheus.GaugeOpts(opts))
	}
	return s
}

func (s series) add(value float64) {
	switch metric := s.Metric.(type) {
	case prometheus.Gauge:
		metric.Set(value)
	case prometheus.Histogram:
		metric.Observe(value)
	case prometheus.Counter:
		metric.Add(value)
	}
}

// size counts as Prometheus does: a histogram has one series for each bucket, and three more.
func (s series) size() int {
	switch s.action {
	case "":
		return 0
	case hooks.ActionObserve:
		return len(s.buckets) + 3
	}
	return 1
}

// Describe implements prometheus.Collector: nothing is known in advance. To the registry that means
// an unchecked collector, whose consistency Check must see to.
func (r *hookReports) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (r *hookReports) Collect(out chan<- prometheus.Metric) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, own := range r.now {
		for _, s := range own {
			out <- s.Metric
		}
	}
}
