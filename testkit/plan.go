package testkit

import (
	"context"

	"addon-operator/helm"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// Plan implements plan.Helm: what Apply would do, as far as the values decide it. There are no
// objects to compare.
func (r *Releases) Plan(_ context.Context, m helm.Module) (helm.Plan, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch old, exists := r.deployed[m.Name]; {
	case !exists:
		return helm.Plan{Action: helm.Installed, Reason: "there is no release"}, nil
	case old.checksum != values.Checksum(m.Values):
		return helm.Plan{Action: helm.Upgraded, Reason: "values"}, nil
	}
	return helm.Plan{Action: helm.Skipped}, nil
}

// PlanRemoval implements plan.Helm.
func (r *Releases) PlanRemoval(_ context.Context, m helm.Module, purge *helm.Purging) (helm.Plan, error) {
	foreign := r.isForeign(m.Name)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, exists := r.deployed[m.Name]; !exists || purge != nil && foreign {
		return helm.Plan{}, nil
	}
	return helm.Plan{Action: helm.Uninstalled}, nil
}

// stepPlan prints what the operator would do: with the ConfigMap in force, or with the one
// in a file.
func stepPlan(p *player, name string) error {
	request := view.PlanRequest{}
	if name != "" {
		data, err := p.configMapFile(name)
		if err != nil {
			return err
		}
		request.Proposed = data
	}
	return p.Await(func() error {
		f, err := p.Operator.Plan(context.Background(), request)
		if err != nil {
			return err
		}
		if f.Refused != "" {
			p.Trace.Add("refused: %s", firstLine(f.Refused))
		}
		for _, note := range f.Notes {
			p.Trace.Add("note: %s", firstLine(note))
		}
		for _, m := range f.Modules {
			p.Trace.Add("would %s %s: %s; release %s (%s) hooks %q %q %s", m.Step, m.Module, m.Why, m.Release, m.Reason, m.HookValues, m.Notes, m.Error+m.Unknown)
		}
		return nil
	})
}
