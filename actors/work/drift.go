package work

import (
	"fmt"

	"addon-operator/actors/plan"
	"addon-operator/supervisor"
)

// DriftFound is the result of a look. Known is false when the module must run anyway: what that run
// changes is no drift, and nothing is reported.
type DriftFound struct {
	Changes plan.Drift
	Known   bool
}

// SeekDrift is the work of a CheckDrift task. It renders with the present values: when they differ
// from those of the last run, an upgrade is due.
func (j ModuleJob) SeekDrift(run *supervisor.Run) (DriftFound, error) {
	run.Step("look for drift")
	merged, _ := j.Known.Values()
	changes, known, err := j.Plans.Drift(run.Context(), plan.HelmModule(j.Module, merged))
	if err != nil {
		return DriftFound{}, fmt.Errorf("look for drift: %w", err)
	}
	return DriftFound{changes, known}, nil
}
