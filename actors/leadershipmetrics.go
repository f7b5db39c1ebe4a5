package actors

import (
	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/messages"
)

// watchLeadership adds who leads; who is alone leads.
func (m *Metrics) watchLeadership(leadership func() messages.Leadership) {
	if leadership == nil {
		leadership = func() messages.Leadership { return messages.Leadership{Leading: true} }
	}
	m.register(leadershipState{
		now:         leadership,
		leads:       prometheus.NewDesc(m.prefix+"leader", "1 while this replica leads, 0 while it is stand-by.", nil, nil),
		transitions: prometheus.NewDesc(m.prefix+"leader_transitions_total", "How often the leadership went from one replica to another.", nil, nil),
	})
}

// leadershipState shows who leads at the moment of a scrape.
type leadershipState struct {
	now                func() messages.Leadership
	leads, transitions *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (l leadershipState) Describe(out chan<- *prometheus.Desc) {
	out <- l.leads
	out <- l.transitions
}

// Collect implements prometheus.Collector.
func (l leadershipState) Collect(out chan<- prometheus.Metric) {
	now, leads := l.now(), 0.0
	if now.Leading {
		leads = 1
	}
	out <- prometheus.MustNewConstMetric(l.leads, prometheus.GaugeValue, leads)
	out <- prometheus.MustNewConstMetric(l.transitions, prometheus.CounterValue, float64(now.Transitions))
}
