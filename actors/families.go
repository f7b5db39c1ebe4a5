package actors

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Family describes a metric to people: documentation, alerts and dashboards are checked
// against it, because a page of metrics shows only those that have a series.
type Family struct {
	Name, Type, Help string
	Labels           []string
}

// register registers a collector and remembers it for [Metrics.Families].
func (m *Metrics) register(c prometheus.Collector) {
	m.Registry.MustRegister(c)
	m.collectors = append(m.collectors, c)
}

// Families lists the metrics of the operator by name, also those without a series.
func (m *Metrics) Families() []Family {
	var all []Family
	for _, c := range m.collectors {
		descriptions := make(chan *prometheus.Desc)
		go func() {
			defer close(descriptions)
			c.Describe(descriptions)
		}()
		for d := range descriptions {
			all = append(all, familyOf(c, d))
		}
	}
	slices.SortFunc(all, func(a, b Family) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// familyOf reads a description: the library has its parts only as text.
func familyOf(c prometheus.Collector, d *prometheus.Desc) Family {
	parts := regexp.MustCompile(`^Desc\{fqName: ("(?:[^"\\]|\\.)*"), help: ("(?:[^"\\]|\\.)*"), .*constLabels: \{.*\}, variableLabels: \{(.*)\}\}$`).FindStringSubmatch(d.String())
	if parts == nil {
		return Family{Name: d.String()}
	}
	name, _ := strconv.Unquote(parts[1])
	help, _ := strconv.Unquote(parts[2])
	return Family{Name: name, Type: typeOf(c, name), Help: help, Labels: strings.FieldsFunc(parts[3], func(r rune) bool { return r == ',' })}
}

// typeOf goes by the collector, and for those that make several metrics at a scrape by
// the rule that counters, and only counters, are called total.
func typeOf(c prometheus.Collector, name string) string {
	switch c.(type) {
	case *prometheus.CounterVec, prometheus.CounterFunc: // the latter is any single counter
		return "counter"
	case *prometheus.GaugeVec:
		return "gauge"
	case *prometheus.HistogramVec:
		return "histogram"
	}
	if strings.HasSuffix(name, "_total") {
		return "counter"
	}
	return "gauge"
}
