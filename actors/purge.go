package actors

import (
	"context"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/decide"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/supervisor"
)

// A purge uninstalls the release of a module that has no directory (G7), if an operator has
// installed it: people and other programs may have releases in the namespace, too (P2). It is a step of
// a reload and tried once there. When it fails it is retried outside of the main queue,
// maybe for days; so it asks each time whether it is still due.

// concerned lists the releases that are the operator's business: those called like a module,
// which may adopt them (H7), the ignored one, which is never purged, and those that an operator has
// installed. others are all the rest.
func (w World) concerned(ctx context.Context, modules []addons.Module) (releases, others []string, err error) {
	all, err := w.Releases.Releases(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("list releases: %w", err)
	}
	for _, name := range all {
		if name == w.IgnoredRelease || slices.ContainsFunc(modules, func(m addons.Module) bool { return m.Name == name }) {
			releases = append(releases, name)
		} else {
			others = append(others, name)
		}
	}
	ours, err := w.Releases.Ours(ctx, others)
	if err != nil {
		return nil, nil, fmt.Errorf("find out who has installed releases: %w", err)
	}
	others = slices.DeleteFunc(others, func(name string) bool { return slices.Contains(ours, name) })
	return append(releases, ours...), others, nil
}

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

// endPurges asks converge to give up the purges of modules whose directories are back; it
// answers purgesEnded when nothing of them runs. A Helm action in progress is waited for.
type (
	endPurges   struct{ modules []addons.Module }
	purgesEnded struct{}
)

// endPurges cancels what waits for another attempt, too: it might begin in parallel with a run of
// the module, and what it has removed would be taken for what the run has installed.
func (c *converge) endPurges(ctx actor.Context, modules []addons.Module) {
	for _, m := range modules {
		if id := c.purging[m.Name]; c.Has(id) {
			c.Cancel(ctx, id)
			c.ending = append(c.ending, id)
		}
		delete(c.purging, m.Name) // one that has not begun is refused
	}
	c.awaiting = append(c.awaiting, ctx.Sender())
	c.answerPurgesEnded(ctx)
}

func (c *converge) answerPurgesEnded(ctx actor.Context) {
	c.ending = slices.DeleteFunc(c.ending, func(id string) bool { return !c.Has(id) })
	if len(c.ending) > 0 {
		return
	}
	for _, pid := range c.awaiting {
		ctx.Send(pid, purgesEnded{})
	}
	c.awaiting = nil
}

// mayPurge asks converge whether a release is still one to purge; it answers purgeable.
type (
	mayPurge  struct{ release string }
	purgeable struct {
		may bool
		// removed: it is of a module that was removed from under the operator.
		removed bool
	}
)

// mayPurge is false when the directory is back, when maintenance has begun since the
// purge was queued, or when a later reload holds it back.
func (c *converge) mayPurge(release string) purgeable {
	back := slices.ContainsFunc(c.tree.Modules, func(m addons.Module) bool { return m.Name == release })
	return purgeable{
		may:     !back && !slices.Contains(c.purges.Held, release) && !decide.Untouchable(c.tree.Modules, c.maintenance)(release),
		removed: c.removed[release],
	}
}

// purge uninstalls a release. What still runs of a module that was removed, which may be
// Helm, ends first.
func (j reloadJob) purge(run *supervisor.Run, release string) (purged bool, err error) {
	run, s := j.span(run, "purge", about{module: release})
	defer func() { s.end(err) }()
	due, err := supervisor.Ask[purgeable](run, convergePath, mayPurge{release})
	if err != nil || !due.may {
		return false, err
	}
	if due.removed {
		run.Step("wait until nothing of %s runs", release)
		if _, err := supervisor.Ask[moduleQuiet](run, ownerPath(release), awaitQuiet{}); err != nil {
			return false, fmt.Errorf("purge release %s: %w", release, err)
		}
		if due, err = supervisor.Ask[purgeable](run, convergePath, mayPurge{release}); err != nil || !due.may {
			return false, err
		}
	}
	run.Step("helm uninstall %s", release)
	existed, err := j.program.Releases.Purge(j.program.Writes, release)
	if err != nil {
		return false, fmt.Errorf("purge release %s: %w", release, err)
	}
	if existed {
		j.log.Info("release without a module directory is purged", "release", release)
	}
	return true, nil
}
