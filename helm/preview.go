package helm

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"helm.sh/helm/v3/pkg/release"

	"addon-operator/helm/rehearsal"
)

// Preview is what Apply or Uninstall would do.
type Preview struct {
	// Action that would be taken; empty when there is nothing to uninstall.
	Action  Action
	Reason  string
	Changes []rehearsal.Change // of objects, sorted by their names
	Hooks   []Hook             // Helm hooks that would run; a preview runs none
}

// Hook is a Helm hook of a chart.
type Hook struct {
	Object string // Kind name
	Events []string
}

// Uninstalled is the action of a preview of Uninstall.
const Uninstalled Action = "uninstalled"

// Preview returns what Apply would do now. It writes nothing: see rehearse. An
// error is the one that Apply would meet, as far as it can be known before; what
// was found until then is returned with it.
func (c *Client) Preview(ctx context.Context, m Module) (Preview, error) {
	shadow, err := c.rehearse(ctx)
	if err != nil {
		return Preview{}, err
	}
	a, outcome, err := shadow.applyModule(ctx, m)
	p := Preview{Action: outcome.Action, Reason: outcome.Reason, Changes: shadow.rehearsal.Changes()}
	if err != nil {
		return p, err
	}
	if a.store != nil && outcome.Action != Skipped {
		last, _ := a.store.state.Last()
		if rel, err := a.store.body(last); err == nil {
			p.Hooks = hooksOf(rel, outcome.Action)
		}
	}
	return p, nil
}

// PreviewUninstall returns what Uninstall would do now.
func (c *Client) PreviewUninstall(ctx context.Context, name string) (Preview, error) {
	return c.previewRemoval(ctx, name, false)
}

// PreviewPurge returns what Purge would do now.
func (c *Client) PreviewPurge(ctx context.Context, name string) (Preview, error) {
	return c.previewRemoval(ctx, name, true)
}

func (c *Client) previewRemoval(ctx context.Context, name string, purge bool) (Preview, error) {
	shadow, err := c.rehearse(ctx)
	if err != nil {
		return Preview{}, err
	}
	existed, err := shadow.remove(ctx, name, purge)
	p := Preview{Changes: shadow.rehearsal.Changes(), Hooks: shadow.rehearsal.hooks}
	if existed {
		p.Action, p.Reason = Uninstalled, "its release is removed"
	}
	return p, err
}

// Drift returns which objects of a module others changed since its last Apply: the
// fields that an Apply with these objects as Module.Drifted puts back. It looks at
// what the chart sets; defaults of the API server and fields of other writers are
// none of its business. known is false when an Apply is due anyway, whose changes
// would not be drift.
func (c *Client) Drift(ctx context.Context, m Module) (drifted []rehearsal.Change, known bool, err error) {
	shadow, err := c.rehearse(ctx)
	if err != nil {
		return nil, false, err
	}
	a, err := shadow.prepare(ctx, m)
	if err != nil {
		return nil, false, err
	}
	a.merge3, a.unmarked = true, true
	if known, err = a.rehearseUpgrade(); err != nil || !known {
		return nil, false, classify(ctx, m.Name, a.operation, err)
	}
	return slices.DeleteFunc(shadow.rehearsal.Changes(), func(ch rehearsal.Change) bool { return ch.Verb != rehearsal.Changed }), true, nil
}

// rehearseUpgrade upgrades a release that is as it should be.
func (a *apply) rehearseUpgrade() (settled bool, err error) {
	state, err := a.client.records.read(a.ctx, a.release)
	if err != nil {
		return false, err
	}
	a.store = a.operation.store(state)
	if err := a.readLegacyChecksum(); err != nil {
		return false, err
	}
	if step, _ := Decide(a.store.state, a.manifest.checksum, nil); step != StepSkip {
		return false, nil
	}
	_, err = a.take(StepUpgrade, "")
	return true, err
}

// insist lets drifted objects be a reason to act.
func insist(step Step, reason string, drifted []Object) (Step, string) {
	switch {
	case step != StepSkip || len(drifted) == 0:
		return step, reason
	case len(drifted) == 1:
		return StepUpgrade, fmt.Sprintf("%s was changed by others", drifted[0])
	}
	return StepUpgrade, fmt.Sprintf("%s and %d more were changed by others", drifted[0], len(drifted)-1)
}

// hooksOf lists the hooks of a release that an action runs.
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
