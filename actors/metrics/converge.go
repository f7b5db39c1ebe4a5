package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/messages"
)

// Converge counts reloads of all modules, and what leads to them or slows them down.
type Converge struct {
	// ConfigRefused counts ConfigMaps that are not valid, or were deleted.
	ConfigRefused prometheus.Counter
	// DiscoveryFailed counts failed discoveries of modules.
	DiscoveryFailed prometheus.Counter

	// by the activation of the cause. seconds and finished grow together, so their quotient is the
	// mean duration.
	seconds, finished, restarts, postponed, loops *prometheus.CounterVec
}

func newConverge(d *declared) Converge {
	return Converge{
		ConfigRefused:   d.counter("config_values_errors_total", "Contents of the ConfigMap that were refused, and its deletions.").WithLabelValues(),
		DiscoveryFailed: d.counter("modules_discover_errors_total", "Failed discoveries of modules.").WithLabelValues(),
		seconds:         d.counter("convergence_seconds", "Time spent in finished reloads of all modules.", "activation"),
		finished:        d.counter("convergence_total", "Finished reloads of all modules.", "activation"),
		restarts:        d.counter("reload_restarts_total", "Reloads of all modules that were restarted before they had ended.", "activation"),
		postponed:       d.counter("reloads_postponed_total", "Reloads of all modules that had to wait for the end of another one, because it had been restarted too often.", "activation"),
		loops:           d.counter("value_loops_total", "Runs and reloads slowed down because they are part of a loop, also of corrections of drift that another client undoes; and charts that rendered differently from equal inputs.", "activation"),
	}
}

// Ended counts a reload that has finished.
func (c Converge) Ended(cause messages.Cause, began time.Time) {
	c.seconds.WithLabelValues(activation(cause)).Add(seconds(began))
	c.finished.WithLabelValues(activation(cause)).Inc()
}

// Restarted counts a reload that was started again before it had ended.
func (c Converge) Restarted(cause messages.Cause) {
	c.restarts.WithLabelValues(activation(cause)).Inc()
}

// Postponed counts a reload that waits for the end of another one.
func (c Converge) Postponed(cause messages.Cause) {
	c.postponed.WithLabelValues(activation(cause)).Inc()
}

// Looped counts what was slowed down because it is part of a loop.
func (c Converge) Looped(cause messages.Cause) { c.loops.WithLabelValues(activation(cause)).Inc() }
