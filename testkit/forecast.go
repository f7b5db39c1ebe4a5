package testkit

import (
	"context"

	"addon-operator/helm"
	"addon-operator/messages"
	"addon-operator/values"
)

// Preview implements actors.Previews.
func (r *Releases) Preview(_ context.Context, m helm.Module) (helm.Preview, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch old, exists := r.deployed[m.Name]; {
	case !exists:
		return helm.Preview{Action: helm.Installed, Reason: "there is no release"}, nil
	case old.checksum != values.Checksum(m.Values):
		return helm.Preview{Action: helm.Upgraded, Reason: "values"}, nil
	}
	return helm.Preview{Action: helm.Skipped}, nil
}

// PreviewUninstall implements actors.Previews.
func (r *Releases) PreviewUninstall(_ context.Context, name string) (helm.Preview, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, exists := r.deployed[name]; !exists {
		return helm.Preview{}, nil
	}
	return helm.Preview{Action: helm.Uninstalled}, nil
}

// PreviewPurge implements actors.Previews.
func (r *Releases) PreviewPurge(ctx context.Context, name string) (helm.Preview, error) {
	if r.isForeign(name) {
		return helm.Preview{}, nil
	}
	return r.PreviewUninstall(ctx, name)
}

// stepPlan prints what the operator would do: with the ConfigMap in force, or with the one
// in a file.
func (p *player) stepPlan(name string) error {
	request := messages.ForecastRequest{}
	if name != "" {
		data, err := p.configMapFile(name)
		if err != nil {
			return err
		}
		request.Proposed = data
	}
	return p.Await(func() error {
		f, err := p.Operator.Forecast(context.Background(), request)
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
