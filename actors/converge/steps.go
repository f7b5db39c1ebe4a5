package converge

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/decide"
	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/messages"
)

// steps decides what a reload does, and reports the purges that no person has allowed.
//
// Absence is not an order to delete (P1): a volume that is not mounted looks like modules that were
// removed. A reload holds its purges back when they look like that; people are shown which releases
// would go and how to allow it. The rest of the reload continues.
func (c *converge) steps(ctx actor.Context, enabled []string, verdicts map[string]decide.Verdict) decide.Steps {
	known := c.catalog.Reload
	known.Enabled, known.Verdicts = enabled, verdicts
	s := known.Steps()
	c.catalog.purgesDecided(ctx, s)
	return s
}

// mayPurge says whether a purge that was queued, maybe days ago, is still due. It is not when the
// directory is back, also if it does not load, when maintenance has begun, or when a later reload
// holds the purge (P1).
func (c *converge) mayPurge(release string) work.Purgeable {
	known := func(m addons.Module) bool { return m.Name == release }
	back := slices.ContainsFunc(c.catalog.Tree.Modules, known) || slices.ContainsFunc(c.catalog.Tree.Broken, known) ||
		slices.Contains(c.catalog.Tree.Unreachable, release)
	return work.Purgeable{
		May: !back && !slices.Contains(c.catalog.Purges.Held, release) &&
			!decide.Untouchable(c.catalog.Tree.Modules, c.catalog.Maintenance)(release),
		Data:     c.catalog.MayDeleteData(release),
		Removed:  c.catalog.removed[release],
		Orphaned: c.catalog.Orphaned(release),
	}
}

// reloadTasks are the tasks that the steps of a reload become, in their order: runs, deletes,
// purges, afterAll, the end (E8, X21). Modules of one order number form a group, which one task
// runs in parallel, if the option allows more than one at a time (X24).
func reloadTasks(p *shared.Program, steps decide.Steps, modules []addons.Module, reload int, afterAll []hooks.Hook, cause messages.Cause) []messages.Task {
	var tasks []messages.Task
	// All steps have the number of the reload, by which the queue finds them when it is overtaken
	// (F10).
	add := func(owner string, w messages.Work) {
		t := p.NewTask(owner, w, cause)
		t.Reload = reload
		tasks = append(tasks, t)
	}
	for _, group := range steps.Groups(modules, p.Width) {
		if len(group) == 1 {
			add(group[0], messages.RunModule{})
		} else {
			add(messages.Converge, messages.RunModules{Names: group})
		}
	}
	for _, name := range steps.Delete {
		add(name, messages.DeleteModule{})
	}
	for _, name := range steps.Purge {
		add(messages.Converge, messages.PurgeRelease{Release: name})
		tasks[len(tasks)-1].AllowFailure = true // the next reload tries it again (E10)
	}
	for _, hook := range afterAll {
		add(messages.GlobalHooks, work.OrderWork(hook, hooks.AfterAll))
	}
	// The queue executes it when all steps before it have ended.
	add(messages.Converge, messages.FinishReload{})
	return tasks
}
