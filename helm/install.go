package helm

import (
	"errors"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
)

// installer runs Helm's install and upgrade for a target. Its fields are set by the steps before
// the action that uses them.
type installer struct {
	*target
	presumed bool     // the objects were not looked up, and are taken for absent
	heals    bool     // only objects are put back: the hooks of the chart do not run
	gone     []Object // left the chart, and are deleted
}

// install runs Helm's install. earlier are manifests of a failed first revision, whose objects may
// exist. If objects that were presumed absent belong to another release, everything is withdrawn,
// the record included, and the error is of kind Foreign.
func (in *installer) install(earlier []string) (*release.Release, error) {
	if last, ok := in.store.state.Last(); ok {
		if _, err := in.store.body(last); err != nil {
			return nil, err // Helm would take a corrupted history for none
		}
	}
	cfg, k := in.op.configuration(in.store)
	k.applying, k.earlier, k.presumed = true, earlier, in.presumed
	i := action.NewInstall(cfg)
	i.ReleaseName = in.op.release
	i.Namespace = in.op.home.options.Namespace
	i.Timeout = in.op.home.options.Timeout
	i.Replace = true // a kept history of an uninstalled release is no obstacle
	i.SkipCRDs = true
	i.TakeOwnership = true
	i.DisableOpenAPIValidation = true
	i.DisableHooks = in.op.home.dry != nil
	i.Labels = in.labels()
	rel, err := i.Run(in.chart.Copy(), in.module.Values)
	if k.withdrawn != nil { // nothing was installed, so there is nothing to record
		if last, ok := in.store.state.Last(); ok {
			_, err := in.store.Delete(last.secret)
			return nil, errors.Join(k.withdrawn, err)
		}
		return nil, k.withdrawn
	}
	return rel, err
}

// reinstall forgets a failed first revision and installs over what it left (H9). Its objects that
// left the chart are deleted first, except for kinds that hold data: the next record does not list
// them.
func (in *installer) reinstall() (*release.Release, error) {
	last, _ := in.store.state.Last()
	failed, err := in.store.body(last)
	if err != nil {
		return nil, err
	}
	if err := in.op.remove(in.gone); err != nil {
		return nil, err
	}
	in.op.reportUnserved()
	if _, err := in.store.Delete(last.secret); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, err
	}
	return in.install([]string{failed.Manifest})
}

// upgrade runs Helm's upgrade. Its base is the last deployed revision. It would forget what failed
// revisions have created since, so the cluster deletes what has left the chart (gone). Helm's hooks
// are for another version of the release: when only objects are put back, none runs (H14).
func (in *installer) upgrade() (*release.Release, error) {
	cfg, k := in.op.configuration(in.store)
	k.applying, k.gone, k.heals = true, in.gone, in.heals
	u := action.NewUpgrade(cfg)
	u.Namespace = in.op.home.options.Namespace
	u.Timeout = in.op.home.options.Timeout
	u.ResetValues = true // without it, empty values silently mean the old ones
	u.SkipCRDs = true
	u.TakeOwnership = true
	u.DisableOpenAPIValidation = true
	u.DisableHooks = in.heals || in.op.home.dry != nil
	u.Labels = in.labels()
	return u.Run(in.op.release, in.chart.Copy(), in.module.Values)
}
