package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/helm"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// Modules counts runs of modules, and what happened to the objects of their releases.
type Modules struct {
	seconds                              *prometheus.SummaryVec
	failed, deletesFailed                *prometheus.CounterVec
	drift                                *prometheus.GaugeVec
	corrections, absentObjects, redeploy *prometheus.CounterVec
	oldFailed                            prometheus.Counter
}

func newModules(d *declared) Modules {
	return Modules{
		seconds:       d.summary("module_run_seconds", "Duration of successful module runs.", "module", "activation"),
		failed:        d.counter("module_run_errors_total", "Failed module runs.", "module"),
		deletesFailed: d.counter("module_delete_errors_total", "Failed deletions of modules.", "module"),
		drift:         d.gauge("module_drifted_objects", "Objects of the module's release that other clients have changed, according to the last check for drift.", "module"),
		corrections:   d.counter("module_drift_corrections_total", "Runs of the module that corrected drift.", "module"),
		absentObjects: d.counter("modules_absent_resources_total", "Objects of releases that were found absent.", "module", "resource"),
		redeploy:      d.counter("modules_helm_release_redeployed_total", "Releases applied again because objects were absent.", "module"),
		oldFailed:     d.alias("module_run_errors", d.prefix+"module_run_errors_total"),
	}
}

// Ran counts a module run that succeeded.
func (m Modules) Ran(module string, c messages.Cause, began time.Time) {
	m.seconds.WithLabelValues(module, activation(c)).Observe(seconds(began))
}

// Failed counts a failed attempt at a run or a delete; the phase of the module says which of them.
// The old name counts runs only.
func (m Modules) Failed(module string, phase view.Phase) {
	if phase == view.Deleting {
		m.deletesFailed.WithLabelValues(module).Inc()
		return
	}
	m.failed.WithLabelValues(module).Inc()
	m.oldFailed.Inc()
}

// Drifted shows what a check for drift has found.
func (m Modules) Drifted(module string, objects int) {
	m.drift.WithLabelValues(module).Set(float64(objects))
}

// ForgetDrift removes what the last check has found: it is no longer known. A zero would say that
// nothing has drifted.
func (m Modules) ForgetDrift(module string) { m.drift.DeleteLabelValues(module) }

// DriftCorrected counts a run that puts drift back, when it is decided on.
func (m Modules) DriftCorrected(module string) { m.corrections.WithLabelValues(module).Inc() }

// Absent counts objects of the release that are gone. Their names are labels, in a bounded number:
// a release has the objects of its chart, and the series end with the module.
func (m Modules) Absent(module string, gone []helm.Object) {
	for _, o := range gone {
		m.absentObjects.WithLabelValues(module, o.String()).Inc()
	}
}

// Redeployed counts a release that was applied again because of absent objects.
func (m Modules) Redeployed(module string) { m.redeploy.WithLabelValues(module).Inc() }

// Helm counts what Helm does for modules.
type Helm struct {
	// seconds is the whole part of a run, operations are what it consists of.
	seconds    *prometheus.SummaryVec
	operations *prometheus.HistogramVec
	fallbacks  prometheus.Counter
}

func newHelm(d *declared) Helm {
	return Helm{
		seconds:    d.summary("module_helm_seconds", "Duration of the Helm part of module runs.", "module", "activation"),
		operations: d.histogram("helm_operation_seconds", "Duration of the steps of the Helm part, of all modules: template, check-upgrade, upgrade (also for installs), fallback.", "activation", "operation"),
		fallbacks:  d.counter("helm_fallback_total", "Repairs of releases that could not be upgraded directly: interrupted, corrupted, or failed at the first install.").WithLabelValues(),
	}
}

// Ran notes how long Helm took for a run, also one that failed.
func (h Helm) Ran(module string, c messages.Cause, began time.Time) {
	h.seconds.WithLabelValues(module, activation(c)).Observe(seconds(began))
}

// Operated notes how long one operation of it took, also one that failed.
func (h Helm) Operated(c messages.Cause, o helm.Operation, began time.Time) {
	h.operations.WithLabelValues(activation(c), string(o)).Observe(seconds(began))
	if o == helm.Fallback {
		h.fallbacks.Inc()
	}
}
