package work

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"addon-operator/actors/plan"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/messages"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// releaseJob is the part of a module's job that is about its release: its CRDs, Helm, and what
// cures an error of Helm.
type releaseJob struct {
	job ModuleJob
	run *supervisor.Run
}

// release is the part of the job that is about the release.
func (j ModuleJob) release(run *supervisor.Run) releaseJob { return releaseJob{j, run} }

// apply is G5.3. Helm sees the values without the list of enabled modules (D9). It is not cancelled
// in the middle, which would leave a pending release; only the end of the grace period stops it.
// Waiting for Helm hooks does end with the task.
func (r releaseJob) apply() (outcome helm.Outcome, untouched bool, err error) {
	if !charts.Exists(r.job.Module.Dir) {
		return helm.Outcome{}, false, stillThere(r.job.Module) // H16
	}
	if r.job.Known.Maintenance != "" {
		return helm.Outcome{}, true, nil
	}
	var s Span
	r.run, s = r.job.span(r.run, "helm", about{})
	defer func() { s.End(err) }()
	r.run.Step("helm")
	for _, section := range []*values.Section{r.job.Known.Global, r.job.Known.Own} { // D36
		if err := section.ValidateForHelm(); err != nil {
			return helm.Outcome{}, false, fmt.Errorf("values for helm: %w", err)
		}
	}
	if err := r.ownCRDs(); err != nil {
		return helm.Outcome{}, false, err
	}
	began := time.Now()
	outcome, err = r.upgrade()
	r.job.Metrics.Helm.Ran(r.job.Owner, r.job.Task.Cause, began)
	if err != nil {
		return outcome, false, err
	}
	s.note(func() []attribute.KeyValue {
		return []attribute.KeyValue{attribute.String("release.action", string(outcome.Action)), attribute.Int("release.revision", outcome.Revision), attribute.String("release.reason", outcome.Reason)}
	})
	level := r.job.Log.Info
	if outcome.Action == helm.Skipped || outcome.Action == helm.Held { // the module logs the latter, once
		level = r.job.Log.Debug
	}
	level("release", "action", outcome.Action, "reason", outcome.Reason, "revision", outcome.Revision)
	return outcome, false, nil
}

// dueCRDs installs the CRDs that the discovery could not: the module was under maintenance, their files were
// wrong, or have changed since.
func (r releaseJob) dueCRDs() error {
	if r.job.CRDs == nil || !r.job.Known.CRDsDue || r.job.Known.Maintenance != "" {
		return nil
	}
	r.run.Step("CRDs")
	merged, _ := r.job.Known.Values()
	if _, err := r.job.CRDs.EnsureCRDs(r.job.installing(r.run), []helm.Module{plan.HelmModule(r.job.Module, merged)}); err != nil {
		return &CRDError{err}
	}
	r.job.Known.CRDsDue = false
	return nil
}

// ownCRDs installs CRDs that became due after the run began: maintenance is over since, or values
// that hooks have set enable a subchart.
func (r releaseJob) ownCRDs() error {
	if r.job.CRDs == nil {
		return nil
	}
	if r.job.Known.CRDsDue {
		return r.dueCRDs()
	}
	merged, _ := r.job.Known.Values()
	if err := r.job.CRDs.EnsureSubcharts(r.job.installing(r.run), plan.HelmModule(r.job.Module, merged)); err != nil {
		return &CRDError{err}
	}
	return nil
}

// upgrade runs Helm, and notifies the healer which objects the release has. It waits until the
// healer shows their health, or the module would be ready with the health of the old ones (H25).
func (r releaseJob) upgrade() (helm.Outcome, error) {
	merged, _ := r.job.Known.Values()
	m := plan.HelmModule(r.job.Module, merged)
	m.Drifted, m.Allowed = r.job.Known.Drifted, r.job.Known.Allowed
	m.Began = r.operation
	m.GiveUp = r.run.Context().Done()
	m.Orphaned = func(release string) (bool, error) {
		of, err := supervisor.Ask[Purgeable](r.run, ConvergePath, MayPurge{release})
		return of.Orphaned, err
	}
	m.Current = r.current
	outcome, err := r.job.Releases.Apply(r.job.WriteContext, m)
	if _, changed := errors.AsType[*FilesChanged](err); changed {
		return outcome, err
	}
	if err != nil {
		return outcome, r.failed(err)
	}
	if len(outcome.Healed) > 0 {
		r.job.Metrics.Modules.Redeployed(r.job.Owner)
	}
	wrote := outcome.Action != helm.Skipped && outcome.Action != helm.Adopted && outcome.Action != helm.Held
	applied := ReleaseApplied{r.job.Owner, outcome.Objects, outcome.Ends, wrote}
	if _, err := supervisor.Ask[struct{}](r.run, HealerPath, applied); err != nil {
		return outcome, err // the run is cancelled
	}
	return outcome, nil
}

// operation measures a part of what Helm does.
func (r releaseJob) operation(o helm.Operation) (ended func(error)) {
	began := time.Now()
	_, s := r.job.span(r.run, "helm "+string(o), about{})
	return func(err error) {
		s.End(err)
		r.job.Metrics.Helm.Operated(r.job.Task.Cause, o, began)
	}
}

// failed applies definitions again that were deleted: Helm could not place their objects, and the next attempt can. A
// kind may belong to another module, so the CRDs of all enabled modules are installed.
func (r releaseJob) failed(cause error) error {
	var refused *helm.Error
	if !errors.As(cause, &refused) || refused.Kind != helm.Invalid || r.job.CRDs == nil {
		return fmt.Errorf("helm: %w", cause)
	}
	d, err := supervisor.Ask[Discovery](r.run, ConvergePath, GetDiscovery{})
	if err != nil {
		return err
	}
	written, failed, err := r.job.installCRDs(r.run, d, r.job.Known.Global, func(name string) bool { return slices.Contains(d.Before, name) })
	if names := slices.Sorted(maps.Keys(written)); len(names) > 0 {
		cause = fmt.Errorf("%w; these definitions were not in the cluster, and are applied again: %s", cause, messages.Few(3, names))
	}
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		err = errors.Join(err, failed[name])
	}
	return errors.Join(fmt.Errorf("helm: %w", cause), err)
}

// deployed reports whether there is a release of the module.
func (r releaseJob) deployed() (bool, error) {
	releases, err := r.job.Releases.Releases(r.run.Context())
	if err != nil {
		return false, fmt.Errorf("list releases: %w", err)
	}
	return slices.Contains(releases, r.job.Owner), nil
}

// ReleaseApplied says to the healer which objects a release has; without any there is nothing to look after. A run is
// answered when their health is published: the module is not ready with what was current before, or without any.
type ReleaseApplied struct {
	Module  string
	Objects []helm.Object
	Ends    map[helm.Object]bool // that end by themselves; true: they have
	Wrote   bool                 // Helm wrote objects: what is known of their health is out of date
}
