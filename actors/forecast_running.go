package actors

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"addon-operator/actors/decide"
	"addon-operator/addons"
	"addon-operator/messages"
	"addon-operator/values"
)

// getKnownConfig asks config for the content of the ConfigMap that is in force. It answers
// knownConfig.
type (
	getKnownConfig struct{}
	knownConfig    struct {
		data    map[string]string
		refused string
	}
)

// Forecast returns what the running operator would do with the ConfigMap of the request, or
// at the next reload without one. What hooks have set is known from their last runs. It
// asks the actors for what they know, and changes nothing in them.
func (o *Operator) Forecast(ctx context.Context, request messages.ForecastRequest) (messages.Forecast, error) {
	current, err := askFor[knownConfig](ctx, o, "config", getKnownConfig{})
	if err != nil {
		return messages.Forecast{}, err
	}
	look, err := o.outlook(ctx)
	if err != nil {
		return messages.Forecast{}, err
	}
	look.secrets = request.Secrets
	if request.Proposed == nil && current.refused != "" {
		look.notes = append(look.notes, "the ConfigMap in the cluster is refused, this is for the last valid one: "+current.refused)
	}
	return look.forecast(ctx, current.data, request.Proposed)
}

// outlook collects what the actors know.
func (o *Operator) outlook(ctx context.Context) (*outlook, error) {
	d, err := askFor[discovery](ctx, o, messages.Converge, getDiscovery{})
	if err != nil {
		return nil, err
	}
	tree, err := d.tree.Refresh(o.program.Dirs)
	if err != nil {
		return nil, err
	}
	releases, _, err := o.program.concerned(ctx, tree.Modules)
	if err != nil {
		return nil, err
	}
	look := &outlook{
		world: o.program.World, tree: tree, sections: map[string]*values.Section{}, dynamic: d.dynamic, scripts: decide.Answers(d.verdicts),
		deployed: maps.Clone(d.deployed), purges: d.purges, hookValues: map[string]string{},
		running: func(m addons.Module, _ bool) bool { return slices.Contains(d.before, m.Name) },
	}
	for _, name := range releases {
		look.deployed[name] = true
	}
	global, err := askFor[messages.Values](ctx, o, messages.GlobalHooks, messages.GetValues{})
	if err != nil {
		return nil, err
	}
	look.sections[values.GlobalKey] = global.Section
	for _, m := range tree.Modules {
		known := slices.ContainsFunc(d.tree.Modules, func(old addons.Module) bool { return old.Name == m.Name && old.Dir == m.Dir })
		if err := o.lookAt(ctx, look, m, known); err != nil {
			return nil, err
		}
	}
	if !o.Converge().Ready {
		look.notes = append(look.notes, "the first converge is not over: hooks that have not run yet may set other values")
	}
	return look, look.lookForHooks()
}

// lookAt asks for the values of a module; one that was found just now has no actor yet.
func (o *Operator) lookAt(ctx context.Context, look *outlook, m addons.Module, known bool) error {
	if !known {
		section, err := sectionFor(m)
		if err != nil {
			return fmt.Errorf("module %s: %w", m.Name, err)
		}
		look.sections[m.Key] = section
		return nil
	}
	got, err := askFor[handed](ctx, o, "module/"+m.Name, handOver{})
	if err != nil {
		return err
	}
	look.sections[m.Key] = got.known.own
	if !got.known.started {
		return nil
	}
	look.hookValues[m.Name] = ""
	if len(got.known.hooks) > 0 {
		look.hookValues[m.Name] = messages.HookValuesRemembered
	}
	return nil
}
