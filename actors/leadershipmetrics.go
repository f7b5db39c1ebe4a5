package actors

import "github.com/prometheus/client_golang/prometheus"

// leadershipState shows who leads.
func (m *Metrics) leadershipState() {
	leads := m.describe("leader", "1 while this replica leads, 0 while it is stand-by.")
	transitions := m.describe("leader_transitions_total", "How often the leadership went from one replica to another.")
	m.registerLive(func(emit emit) {
		now := m.seen.Load().leadership()
		emit(leads, prometheus.GaugeValue, number(now.Leading))
		emit(transitions, prometheus.CounterValue, float64(now.Transitions))
	}, leads, transitions)
}
