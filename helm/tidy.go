package helm

import "helm.sh/helm/v3/pkg/release"

// tidy repairs the history behind the newest revision (H8). What fails is tried again by the next Apply.
func (a *apply) tidy() {
	if a.op.home.dry != nil {
		return
	}
	if err := a.supersede(); err != nil {
		a.op.home.records.doubt(a.op.release)
		a.op.log.Warn("an older revision is still recorded as deployed; the next run tries again", "err", err)
	}
}

// supersede marks what was deployed before the newest revision, which is deployed, as superseded.
// Helm does that with one write, and only logs that it failed.
func (a *apply) supersede() error {
	s := a.store
	last, ok := s.state.Last()
	if !ok || last.Status != release.StatusDeployed {
		return nil
	}
	for _, r := range s.state.Revisions[:len(s.state.Revisions)-1] {
		if r.Status != release.StatusDeployed {
			continue
		}
		delete(s.bodies, r.secret) // Helm has changed it
		rel, err := s.body(r)
		if err != nil {
			return err
		}
		rel.SetStatus(release.StatusSuperseded, rel.Info.Description)
		if err := s.Update(r.secret, rel); err != nil {
			return err
		}
	}
	return nil
}
