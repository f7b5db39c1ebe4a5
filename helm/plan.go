package helm

import (
	"cmp"
	"context"
	"slices"

	"helm.sh/helm/v3/pkg/release"

	"addon-operator/helm/dryrun"
)

// Plan is what Apply or Uninstall would do.
type Plan struct {
	// Action that would be taken; empty when there is nothing to uninstall.
	Action  Action
	Reason  string
	Changes []dryrun.Change // of objects, sorted by their names
	Hooks   []Hook          // Helm hooks that would run; a plan runs none
	Held    *Hold           // what a person must allow before Action is taken; nil for nothing
}

// Hook is a Helm hook of a chart.
type Hook struct {
	Object string // Kind name
	Events []string
}

// Uninstalled is the action of a plan of Uninstall.
const Uninstalled Action = "uninstalled"

// Plan returns what Apply would do now. It writes nothing: see dryRun. An error is the one that
// Apply would return, as far as it can be known before; the changes up to it are returned as well.
func (c *Client) Plan(ctx context.Context, m Module) (Plan, error) {
	trial, err := dry(c.homes.wantedBy(ctx, m))
	if err != nil {
		return Plan{}, err
	}
	a, outcome, err := trial.applyModule(ctx, m)
	p := Plan{Action: outcome.Action, Reason: outcome.Reason, Changes: trial.dry.Changes()}
	if a != nil {
		p.Held = a.held
	}
	if err != nil {
		return p, err
	}
	if a.store != nil && outcome.Action != Skipped && !a.heals {
		last, _ := a.store.state.Last()
		if rel, err := a.store.body(last); err == nil {
			p.Hooks = hooksOf(rel, outcome.Action)
		}
	}
	return p, nil
}

// PlanRemoval returns what Uninstall would do now, or, with purge, what Purge would do, which needs
// only the name of m. Action is empty for a release that does not exist or, in a purge, is not ours.
func (c *Client) PlanRemoval(ctx context.Context, m Module, purge *Purging) (Plan, error) {
	trial, err := dry(c.homes.holdingOf(ctx, m))
	if err != nil {
		return Plan{}, err
	}
	existed, err := trial.remove(ctx, removal{m, purge})
	p := Plan{Changes: trial.dry.Changes(), Hooks: trial.dry.hooks}
	if existed {
		p.Action, p.Reason = Uninstalled, "the release is removed"
	}
	return p, err
}

// Drift returns which objects of a module others changed since its last Apply: the fields that an
// Apply with these objects as Module.Drifted sets again. It compares what the chart sets, and
// ignores defaults of the API server and fields of other writers. known is false when an Apply is
// due anyway, whose changes would not be drift. Objects that are missing are no drift (H13).
func (c *Client) Drift(ctx context.Context, m Module) (drifted []dryrun.Change, known bool, err error) {
	trial, err := dry(c.homes.wantedBy(ctx, m))
	if err != nil {
		return nil, false, err
	}
	a, err := trial.prepare(ctx, m)
	if err != nil {
		return nil, false, err
	}
	a.op.merge3, a.op.unmarked = true, true
	if known, err = a.dryRunUpgrade(); err != nil || !known {
		return nil, false, classify(ctx, m.Name, a.op, err)
	}
	return slices.DeleteFunc(trial.dry.Changes(), func(ch dryrun.Change) bool { return ch.Verb != dryrun.Changed }), true, nil
}

// dryRunUpgrade upgrades a release for which there is nothing to do, so that all changes are drift;
// settled is false for another one.
func (a *apply) dryRunUpgrade() (settled bool, err error) {
	state, err := a.op.home.records.read(a.op.ctx, a.op.release)
	if err != nil {
		return false, err
	}
	a.store = a.op.store(state)
	if err := a.understand(); err != nil {
		return false, err
	}
	if step, _ := Decide(a.store.state, a.manifest.checksum, nil); step != StepSkip || a.adopts {
		return false, nil
	}
	_, err = a.take(StepUpgrade, "")
	return true, err
}

// hooksOf lists the hooks of a release that an action runs, with the events of that action only.
func hooksOf(rel *release.Release, action Action) []Hook {
	wanted := map[Action][]release.HookEvent{
		Installed:   {release.HookPreInstall, release.HookPostInstall},
		Upgraded:    {release.HookPreUpgrade, release.HookPostUpgrade},
		Uninstalled: {release.HookPreDelete, release.HookPostDelete},
	}[action]
	var hooks []Hook
	for _, h := range rel.Hooks {
		var events []string
		for _, e := range h.Events {
			if slices.Contains(wanted, e) {
				events = append(events, string(e))
			}
		}
		if len(events) > 0 {
			hooks = append(hooks, Hook{h.Kind + " " + h.Name, events})
		}
	}
	slices.SortFunc(hooks, func(a, b Hook) int { return cmp.Compare(a.Object, b.Object) })
	return hooks
}
