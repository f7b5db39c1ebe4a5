package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/decide"
	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/messages"
)

// A purge uninstalls the release of a module that has no directory (G7), if an operator has
// installed it: people and other programs may have releases in the namespace, too (P2). It is a step of
// a reload and tried once there. When it fails it is retried outside of the main queue,
// maybe for days; so it asks each time whether it is still due.

// purgeQueue retries failed purges outside of the main queue, so that a release which
// cannot be removed blocks nothing else (E10).
const purgeQueue = hooks.ReservedQueues + "purge"

func (c *converge) purgeLater(ctx actor.Context, t messages.Task) {
	again := c.program.task(messages.Converge, t.Work, messages.Cause{Activation: messages.ByPurgeFailed})
	again.Queue = purgeQueue
	if work, ok := t.Work.(messages.PurgeRelease); ok {
		c.purging[work.Release] = again.ID
	}
	c.program.enqueue(ctx, false, again)
}

// endPurges cancels what waits for another attempt, too: it might begin in parallel with a run of
// the module, and what it has removed would be taken for what the run has installed.
func (c *converge) endPurges(ctx actor.Context, modules []addons.Module) {
	for _, m := range modules {
		if id := c.purging[m.Name]; c.runs.Has(id) {
			c.runs.Cancel(ctx, id)
			c.ending = append(c.ending, id)
		}
		delete(c.purging, m.Name) // one that has not begun is refused
	}
	c.awaiting = append(c.awaiting, ctx.Sender())
	c.answerPurgesEnded(ctx)
}

func (c *converge) answerPurgesEnded(ctx actor.Context) {
	c.ending = slices.DeleteFunc(c.ending, func(id string) bool { return !c.runs.Has(id) })
	if len(c.ending) > 0 {
		return
	}
	for _, pid := range c.awaiting {
		ctx.Send(pid, work.PurgesEnded{})
	}
	c.awaiting = nil
}

// mayPurge is false when the directory is back, when maintenance has begun since the
// purge was queued, or when a later reload holds it back.
func (c *converge) mayPurge(release string) work.Purgeable {
	back := slices.ContainsFunc(c.tree.Modules, func(m addons.Module) bool { return m.Name == release })
	return work.Purgeable{
		May:     !back && !slices.Contains(c.purges.Held, release) && !decide.Untouchable(c.tree.Modules, c.maintenance)(release),
		Removed: c.removed[release],
	}
}
