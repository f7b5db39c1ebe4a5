package actors

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/hooks"
)

// HookMetrics holds the series that hooks report through METRICS_PATH (I6, I7). It is
// the Prometheus collector of /metrics/hooks; scrapes come from other goroutines, hence
// the lock.
type HookMetrics struct {
	reserved string // prefix of the operator's own metrics

	mu       sync.Mutex
	families map[string]*family
	limit    int // of series of one hook, see Metrics.LimitHookSeries
	count    map[reporter]int
	told     map[reporter]bool // that it reports too many
}

// reporter is a hook that reports metrics.
type reporter struct{ module, hook string }

// DefaultHookSeries is how many series a hook may have. One for each of some hundred objects is usual; what grows without an
// end would take the memory of the operator, and that of Prometheus.
const DefaultHookSeries = 1000

// maxConflicts bounds how many metrics of a run that cannot be shown are named: all of them may be such.
const maxConflicts = 100

// family are the series of one name; their type and labels are the same.
type family struct {
	action hooks.MetricAction
	labels map[string]bool
	series map[string]*series
}

// series is one combination of labels.
type series struct {
	module, hook, group string
	labels              map[string]string
	value               float64
	// of histograms
	count   uint64
	buckets map[float64]uint64
}

var _ prometheus.Collector = (*HookMetrics)(nil)

func newHookMetrics(reserved string) *HookMetrics {
	return &HookMetrics{reserved: reserved, families: map[string]*family{}, limit: DefaultHookSeries, count: map[reporter]int{}, told: map[reporter]bool{}}
}

// check refuses what could not be shown together with what is there: a run whose
// metrics are refused has no effect at all (X27).
func (h *HookMetrics) check(reported []hooks.Metric) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := map[string]hooks.MetricAction{} // of this run
	known := func(name string) hooks.MetricAction {
		if f := h.families[name]; f != nil {
			return f.action
		}
		return now[name]
	}
	var errs []error
	for _, m := range reported {
		if m.Action == hooks.ActionExpire {
			continue
		}
		if err := h.conflict(m, known); err != nil {
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
func (h *HookMetrics) conflict(m hooks.Metric, known func(name string) hooks.MetricAction) error {
	for _, reserved := range []string{h.reserved, "go_", "process_"} {
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

// report applies what one run of a hook wrote. Series of a group that the run did not
// mention vanish; groups belong to the hook (I7). Scrapes see all of it or nothing. New series of a hook that has as many
// as it may are dropped; it returns how many those were, and whether this is the first time.
func (h *HookMetrics) report(owner, hook string, reported []hooks.Metric) (dropped int, first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	module := moduleLabel(owner)
	groups := map[string]bool{}
	for _, m := range reported {
		if m.Group != "" {
			groups[m.Group] = true
		}
	}
	h.remove(func(s *series) bool { return s.module == module && s.hook == hook && groups[s.group] })
	for _, m := range reported {
		if m.Action != hooks.ActionExpire && !h.add(module, hook, m) {
			dropped++
		}
	}
	who := reporter{module, hook}
	first = dropped > 0 && !h.told[who]
	if first {
		h.told[who] = true
	}
	return dropped, first
}

// forget removes the series of a module's hooks (I9).
func (h *HookMetrics) forget(module string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remove(func(s *series) bool { return s.module == module })
	maps.DeleteFunc(h.told, func(r reporter, _ bool) bool { return r.module == module })
}

func (h *HookMetrics) remove(gone func(*series) bool) {
	for name, f := range h.families {
		maps.DeleteFunc(f.series, func(_ string, s *series) bool {
			if !gone(s) {
				return false
			}
			h.counted(reporter{s.module, s.hook}, -seriesOf(f.action, len(s.buckets)))
			return true
		})
		if len(f.series) == 0 {
			delete(h.families, name)
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

// counted keeps the number of series of a hook.
func (h *HookMetrics) counted(who reporter, more int) {
	if h.count[who] += more; h.count[who] == 0 {
		delete(h.count, who)
	}
}

// add reports false when the hook has too many series for one more.
func (h *HookMetrics) add(module, hook string, m hooks.Metric) bool {
	labels := maps.Clone(m.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels["hook"] = hook
	if module != "" {
		labels["module"] = module
	}
	key, who := keyOf(labels), reporter{module, hook}
	f := h.families[m.Name]
	more := seriesOf(m.Action, len(m.Buckets))
	if f != nil && f.series[key] != nil {
		more -= seriesOf(f.action, len(f.series[key].buckets))
	}
	if more > 0 && h.count[who]+more > h.limit {
		return false
	}
	h.counted(who, more)
	if f == nil {
		f = &family{action: m.Action, labels: map[string]bool{}, series: map[string]*series{}}
		h.families[m.Name] = f
	}
	for name := range labels {
		f.labels[name] = true
	}
	s := f.series[key]
	if s == nil {
		s = &series{module: module, hook: hook, labels: labels, buckets: map[float64]uint64{}}
		f.series[key] = s
	}
	s.group = m.Group
	switch m.Action {
	case hooks.ActionAdd:
		s.value += m.Value
	case hooks.ActionObserve:
		s.observe(m)
	default:
		s.value = m.Value
	}
	return true
}

// observe counts a value. With other buckets than before the histogram starts again: what
// was counted cannot be spread over them.
func (s *series) observe(m hooks.Metric) {
	if !slices.Equal(slices.Sorted(maps.Keys(s.buckets)), m.Buckets) {
		s.count, s.value, s.buckets = 0, 0, map[float64]uint64{}
		for _, bound := range m.Buckets {
			s.buckets[bound] = 0
		}
	}
	s.count++
	s.value += m.Value
	for bound := range s.buckets {
		if m.Value <= bound {
			s.buckets[bound]++
		}
	}
}

func keyOf(labels map[string]string) string {
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&key, "%q=%q,", name, labels[name])
	}
	return key.String()
}

// Describe implements prometheus.Collector: nothing is known in advance.
func (h *HookMetrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. Labels that a series lacks are empty, so that
// all series of a name have the same.
func (h *HookMetrics) Collect(out chan<- prometheus.Metric) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, f := range h.families {
		labels := slices.Sorted(maps.Keys(f.labels))
		desc := prometheus.NewDesc(name, "Reported by a hook.", labels, nil)
		for _, s := range f.series {
			out <- s.metric(desc, f.action, labels)
		}
	}
}

func (s *series) metric(desc *prometheus.Desc, action hooks.MetricAction, labels []string) prometheus.Metric {
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
		m, err = prometheus.NewConstHistogram(desc, s.count, s.value, maps.Clone(s.buckets), given...)
	default:
		m, err = prometheus.NewConstMetric(desc, prometheus.GaugeValue, s.value, given...)
	}
	if err != nil { // the scrape shows it; names and labels were checked when the hook wrote them
		return prometheus.NewInvalidMetric(desc, err)
	}
	return m
}
