package helm

import (
	"errors"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
)

// install runs Helm's install. earlier is the manifest of a failed first revision, whose objects may
// exist.
func (a *apply) install(earlier string) (*release.Release, error) {
	if last, ok := a.store.state.Last(); ok {
		if _, err := a.store.body(last); err != nil {
			return nil, err // Helm would take a corrupted history for none
		}
	}
	cfg, k := a.op.configuration(a.store)
	k.applying, k.earlier, k.presumed = true, earlier, a.presumed
	i := action.NewInstall(cfg)
	i.ReleaseName = a.op.release
	i.Namespace = a.op.home.options.Namespace
	i.Timeout = a.op.home.options.Timeout
	i.Replace = true // a kept history of an uninstalled release is no obstacle
	i.SkipCRDs = true
	i.TakeOwnership = true
	i.DisableOpenAPIValidation = true
	i.DisableHooks = a.op.home.dry != nil
	i.Labels = a.labels()
	return i.Run(a.chart.Copy(), a.module.Values)
}

// reinstall forgets a failed first revision and installs over what it left (H9). Its objects that
// left the chart are deleted first, except for kinds that hold data: the next record does not list
// them.
func (a *apply) reinstall() (*release.Release, error) {
	last, _ := a.store.state.Last()
	failed, err := a.store.body(last)
	if err != nil {
		return nil, err
	}
	if err := a.op.remove(a.gone); err != nil {
		return nil, err
	}
	a.op.reportUnserved()
	if _, err := a.store.Delete(last.secret); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, err
	}
	return a.install(failed.Manifest)
}

// upgrade runs Helm's upgrade. Its base is the last deployed revision. It would forget what failed
// revisions have created since, so the cluster deletes what has left the chart (gone). Helm's hooks
// are for another version of the release: when only objects are put back, none runs (H14).
func (a *apply) upgrade() (*release.Release, error) {
	cfg, k := a.op.configuration(a.store)
	k.applying, k.gone, k.heals = true, a.gone, a.heals
	u := action.NewUpgrade(cfg)
	u.Namespace = a.op.home.options.Namespace
	u.Timeout = a.op.home.options.Timeout
	u.MaxHistory = a.op.home.options.HistoryMax
	u.ResetValues = true // without it, empty values silently mean the old ones
	u.SkipCRDs = true
	u.TakeOwnership = true
	u.DisableOpenAPIValidation = true
	a.store.prunes = true
	u.DisableHooks = a.heals || a.op.home.dry != nil
	u.Labels = a.labels()
	return u.Run(a.op.release, a.chart.Copy(), a.module.Values)
}
