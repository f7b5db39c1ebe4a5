package actors

import (
	"context"
	"errors"
	"fmt"

	"addon-operator/actors/plan"
	"addon-operator/actors/work"
	"addon-operator/helm"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// Render renders the chart of a module with its values now. It renders in the goroutine of the
// caller; no actor waits for it. Templates may read the cluster (lookup), so it may take as long as
// the API server does.
func (o *Operator) Render(ctx context.Context, module string, request view.RenderRequest) (view.Rendered, error) {
	m, err := o.helmModule(ctx, module)
	if err != nil {
		return view.Rendered{}, err
	}
	return plan.Render(ctx, o.program.Renderer, m, o.program.Secrets.Hider(), request)
}

// helmModule is a module as Helm would get it now (D9). The directory is that of the tree in force,
// and the values are what a run that begins now would get; a disabled module has values, too.
func (o *Operator) helmModule(ctx context.Context, name string) (helm.Module, error) {
	if o.program.Renderer == nil {
		return helm.Module{}, errors.New("charts cannot be rendered: the operator runs without Helm")
	}
	d, err := supervisor.AskFor[work.Discovery](ctx, o.program.System, work.ConvergePath, work.GetDiscovery{})
	if err != nil {
		return helm.Module{}, err
	}
	m := d.Tree.Module(name)
	if m == nil {
		return helm.Module{}, fmt.Errorf("there is no module %s", name)
	}
	got, err := supervisor.AskFor[work.Handed](ctx, o.program.System, work.OwnerPath(name), work.HandOver{})
	if err != nil {
		return helm.Module{}, err
	}
	merged, _ := got.Known.Values()
	return plan.HelmModule(*m, merged), nil
}
