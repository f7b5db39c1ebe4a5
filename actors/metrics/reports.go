package metrics

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/hooks"
	"addon-operator/messages"
)

// DefaultSeries is how many series a hook may have. One for each of some hundred objects is usual; what grows without an
// end would take the memory of the operator, and that of Prometheus.
const DefaultSeries = 1000

// maxConflicts bounds how many metrics of a run that cannot be shown are named: all of them may be such.
const maxConflicts = 100

// Reports are the series that hooks report through METRICS_PATH (I6, I7). It is the
// Prometheus collector of /metrics/hooks. Runs of several hooks end at the same time, and
// each replaces the whole, so a scrape sees all of a run or nothing.
type Reports struct {
	// Limit is how many series a hook may report; set it before hooks run.
	Limit    int
	reserved string // prefix of the operator's own metrics
	dropped  *prometheus.CounterVec
	now      atomic.Pointer[reports]
}

// reports is what hooks have reported at one moment; it is not changed any more.
type reports struct {
	hooks map[reporter]reported
	names map[string]name
}

// reporter is a hook that reports metrics; module is empty for global ones.
type reporter struct{ module, hook string }

// reported are the series of one hook.
type reported struct {
	series map[seriesKey]series
	count  int  // as Prometheus counts series
	told   bool // that they are too many
}

// name is a name of a metric. All series with it have one type.
type name struct {
	action hooks.MetricAction
	series int
}

type seriesKey struct{ name, labels string }

// series is one combination of labels; its maps are not changed.
type series struct {
	group  string
	labels map[string]string
	value  float64
	// of histograms
	count   uint64
	buckets map[float64]uint64
}

var _ prometheus.Collector = (*Reports)(nil)

func newReports(d *declared) *Reports {
	r := &Reports{
		Limit: DefaultSeries, reserved: d.prefix,
		dropped: d.counter("hook_metrics_dropped_total", "Values that hooks reported for new series of metrics, and that were dropped because the hook has too many.", "module", "hook"),
	}
	r.now.Store(&reports{})
	return r
}

// Check refuses what could not be shown together with what is there: a run whose
// metrics are refused has no effect at all (X27).
func (r *Reports) Check(reported []hooks.Metric) error {
	shown := r.now.Load().names
	now := map[string]hooks.MetricAction{} // of this run
	known := func(name string) hooks.MetricAction {
		if n, ok := shown[name]; ok {
			return n.action
		}
		return now[name]
	}
	var errs []error
	for _, m := range reported {
		if m.Action == hooks.ActionExpire {
			continue
		}
		if err := r.conflict(m, known); err != nil {
			if errs = append(errs, fmt.Errorf("METRICS_PATH: metric %s: %w", m.Name, err)); len(errs) == maxConflicts {
				return errors.Join(append(errs, errors.New("there may be more problems; solve these first"))...)
			}
			continue
		}
		now[m.Name] = m.Action
	}
	return errors.Join(errs...)
}

// conflict says why a metric cannot stand on one page with those that are known.
func (r *Reports) conflict(m hooks.Metric, known func(name string) hooks.MetricAction) error {
	for _, reserved := range []string{r.reserved, "go_", "process_"} {
		if strings.HasPrefix(m.Name, reserved) {
			return fmt.Errorf("names that begin with %s belong to the operator; choose another", reserved)
		}
	}
	if is := known(m.Name); is != "" && is != m.Action {
		return fmt.Errorf("action %q does not go with %q, which was used for this name before", m.Action, is)
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if base, ok := strings.CutSuffix(m.Name, suffix); ok && known(base) == hooks.ActionObserve {
			return fmt.Errorf("the histogram %s has a series of this name; choose another", base)
		}
		if m.Action == hooks.ActionObserve && known(m.Name+suffix) != "" {
			return fmt.Errorf("a histogram has a series %s, and there is a metric of this name; choose another", m.Name+suffix)
		}
	}
	return nil
}

// Add shows what one run of a hook wrote. Series of a group that the run mentions, and does
// not report again, vanish; groups belong to the hook (I7). New series of a hook that has as
// many as it may are dropped and counted. It returns how many, the first time that this happens.
func (r *Reports) Add(owner, hook string, written []hooks.Metric) (dropped int) {
	who := reporter{messages.ModuleOf(owner), hook}
	for len(written) > 0 {
		before := r.now.Load()
		next, dropped := before.with(who, written, r.Limit)
		if !r.now.CompareAndSwap(before, next) {
			continue // another hook has reported; what it did may matter here
		}
		if dropped > 0 {
			r.dropped.WithLabelValues(who.module, hook).Add(float64(dropped))
		}
		if before.hooks[who].told {
			return 0
		}
		return dropped
	}
	return 0
}

// forget removes the series of a module's hooks (I9).
func (r *Reports) forget(module string) {
	for {
		before := r.now.Load()
		next := before.clone()
		for who, own := range next.hooks {
			if who.module == module {
				next.remove(&own, func(series) bool { return true })
				delete(next.hooks, who)
			}
		}
		if r.now.CompareAndSwap(before, next) {
			return
		}
	}
}

// clone returns a copy whose maps may be changed, but not what is in them.
func (r *reports) clone() *reports {
	next := &reports{map[reporter]reported{}, map[string]name{}}
	maps.Copy(next.hooks, r.hooks)
	maps.Copy(next.names, r.names)
	return next
}

// with returns the reports after one run of a hook.
func (r *reports) with(who reporter, written []hooks.Metric, limit int) (next *reports, dropped int) {
	next = r.clone()
	own := next.hooks[who]
	own.series = maps.Clone(own.series)
	if own.series == nil {
		own.series = map[seriesKey]series{}
	}
	groups := map[string]bool{}
	for _, m := range written {
		if m.Group != "" {
			groups[m.Group] = true
		}
	}
	next.remove(&own, func(s series) bool { return groups[s.group] })
	for _, m := range written {
		if m.Action != hooks.ActionExpire && !next.add(who, &own, m, limit) {
			dropped++
		}
	}
	own.told = own.told || dropped > 0
	next.hooks[who] = own
	return next, dropped
}

func (r *reports) remove(own *reported, gone func(series) bool) {
	for key, s := range own.series {
		if !gone(s) {
			continue
		}
		n := r.names[key.name]
		own.count -= seriesOf(n.action, len(s.buckets))
		delete(own.series, key)
		if n.series--; n.series > 0 {
			r.names[key.name] = n
		} else {
			delete(r.names, key.name)
		}
	}
}

// seriesOf counts as Prometheus does: a histogram has one for each bucket, and three more.
func seriesOf(action hooks.MetricAction, buckets int) int {
	if action == hooks.ActionObserve {
		return buckets + 3
	}
	return 1
}

// add reports false when the hook has too many series for one more.
func (r *reports) add(who reporter, own *reported, m hooks.Metric, limit int) bool {
	labels := maps.Clone(m.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels["hook"] = who.hook
	if who.module != "" {
		labels["module"] = who.module
	}
	key, n := seriesKey{m.Name, keyOf(labels)}, r.names[m.Name]
	s, known := own.series[key]
	more := seriesOf(m.Action, len(m.Buckets))
	if known {
		more -= seriesOf(n.action, len(s.buckets))
	}
	if more > 0 && own.count+more > limit {
		return false
	}
	own.count += more
	if !known {
		if n.series++; n.series == 1 {
			n.action = m.Action
		}
		r.names[m.Name], s.labels = n, labels
	}
	s.group = m.Group
	switch m.Action {
	case hooks.ActionAdd:
		s.value += m.Value
	case hooks.ActionObserve:
		s = s.observed(m)
	default:
		s.value = m.Value
	}
	own.series[key] = s
	return true
}

// observed counts a value. With other buckets than before the histogram starts again: what
// was counted cannot be spread over them.
func (s series) observed(m hooks.Metric) series {
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
	return s
}

// keyOf leaves empty labels out: to Prometheus they are the same as none.
func keyOf(labels map[string]string) string {
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if labels[name] != "" {
			fmt.Fprintf(&key, "%q=%q,", name, labels[name])
		}
	}
	return key.String()
}

// Describe implements prometheus.Collector: nothing is known in advance.
func (r *Reports) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. Labels that a series lacks are empty, so that
// all series of a name have the same.
func (r *Reports) Collect(out chan<- prometheus.Metric) {
	now := r.now.Load()
	labels := map[string][]string{} // by name
	for _, own := range now.hooks {
		for key, s := range own.series {
			for label := range s.labels {
				if !slices.Contains(labels[key.name], label) {
					labels[key.name] = append(labels[key.name], label)
				}
			}
		}
	}
	descriptions := map[string]*prometheus.Desc{}
	for name := range labels {
		slices.Sort(labels[name])
		descriptions[name] = prometheus.NewDesc(name, "Reported by a hook.", labels[name], nil)
	}
	for who, own := range now.hooks {
		for key, s := range own.series {
			// A global hook may report in the name of a module; the module's hook of its name wins.
			if other := (reporter{s.labels["module"], who.hook}); other != who {
				if _, taken := now.hooks[other].series[key]; taken {
					continue
				}
			}
			out <- s.metric(descriptions[key.name], now.names[key.name].action, labels[key.name])
		}
	}
}

func (s series) metric(desc *prometheus.Desc, action hooks.MetricAction, labels []string) prometheus.Metric {
	given := make([]string, len(labels))
	for i, name := range labels {
		given[i] = s.labels[name]
	}
	var m prometheus.Metric
	var err error
	switch action {
	case hooks.ActionAdd:
		m, err = prometheus.NewConstMetric(desc, prometheus.CounterValue, s.value, given...)
	case hooks.ActionObserve:
		m, err = prometheus.NewConstHistogram(desc, s.count, s.value, s.buckets, given...)
	default:
		m, err = prometheus.NewConstMetric(desc, prometheus.GaugeValue, s.value, given...)
	}
	if err != nil { // the scrape shows it; names and labels were checked when the hook wrote them
		return prometheus.NewInvalidMetric(desc, err)
	}
	return m
}
