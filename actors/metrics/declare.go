package metrics

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// Family describes a metric to people: documentation, alerts and dashboards are checked
// against it, because a page of metrics shows only those that have a series.
type Family struct {
	Name, Type, Help string
	Labels           []string
}

// declared registers metrics and remembers what they are. All metrics of the operator are declared
// by its methods: one that is registered past them is missing in the documentation, and keeps the
// series of modules that are gone. It is written to by New, and Watch only, before
// anything is counted, and so has no lock.
type declared struct {
	*prometheus.Registry
	prefix   string
	families []Family
	// Those with a label module, and those with a label hook: series are removed from them when a
	// module or a hook is gone.
	byModule, byHook []vector
}

// vector is a vector of metrics of any type. The client has no interface for their common methods.
type vector interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

// describe adds a family to those that are documented, and returns it with its whole name. It
// registers nothing.
func (d *declared) describe(kind, name, help string, labels ...string) Family {
	f := Family{d.prefix + name, kind, help, labels}
	d.families = append(d.families, f)
	return f
}

// register panics for a name that is taken or not valid: that is a bug, which every test shows.
func (d *declared) register(v vector, f Family) {
	d.MustRegister(v)
	if slices.Contains(f.Labels, "module") {
		d.byModule = append(d.byModule, v)
	}
	if slices.Contains(f.Labels, "hook") {
		d.byHook = append(d.byHook, v)
	}
}

func (d *declared) counter(name, help string, labels ...string) *prometheus.CounterVec {
	f := d.describe("counter", name, help, labels...)
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.Name, Help: help}, labels)
	d.register(v, f)
	return v
}

func (d *declared) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	f := d.describe("gauge", name, help, labels...)
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: f.Name, Help: help}, labels)
	d.register(v, f)
	return v
}

// histogram is for what takes seconds or minutes, in seconds.
func (d *declared) histogram(name, help string, labels ...string) *prometheus.HistogramVec {
	return d.histogramOf([]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}, name, help, labels...)
}

// fine is a histogram of what takes far less than a second, in seconds.
func (d *declared) fine(name, help string, labels ...string) *prometheus.HistogramVec {
	return d.histogramOf([]float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5}, name, help, labels...)
}

func (d *declared) histogramOf(buckets []float64, name, help string, labels ...string) *prometheus.HistogramVec {
	f := d.describe("histogram", name, help, labels...)
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: f.Name, Help: help, Buckets: buckets}, labels)
	d.register(v, f)
	return v
}

// summary is for durations, in seconds, of what there is a thousand of: modules, hooks and bindings. It has a sum and
// a count: with the buckets of histograms such series were most of a page of many megabytes.
func (d *declared) summary(name, help string, labels ...string) *prometheus.SummaryVec {
	f := d.describe("summary", name, help, labels...)
	v := prometheus.NewSummaryVec(prometheus.SummaryOpts{Name: f.Name, Help: help}, labels)
	d.register(v, f)
	return v
}

// alias is a name that the first generations of dashboards know (X11): a sum over all hooks and modules. The caller counts
// it together with the vector that it sums up: a sum over the series of the vector would fall when
// a module is forgotten, which a counter must not.
func (d *declared) alias(name, of string) prometheus.Counter {
	help := "Old name of the sum over " + of + "."
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: d.prefix + name, Help: help})
	d.describe("counter", name, help)
	d.MustRegister(c)
	return c
}
