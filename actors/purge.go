package actors

import (
	"log/slog"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/decide"
	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/supervisor"
)

// A purge uninstalls the release of a module that has no directory (G7), if an operator has
// installed it: people and other programs may have releases in the namespace, too (P2). It is a step of
// a reload and tried once there. When it fails it is retried outside of the main queue,
// maybe for days; so it asks each time whether it is still due.

// purgeQueue retries failed purges outside of the main queue, so that a release which
// cannot be removed blocks nothing else (E10).
const purgeQueue = hooks.ReservedQueues + "purge"

// purger carries out purges, and holds them back (purge_hold.go).
type purger struct {
	program *program
	runs    *supervisor.Runs // of converge
	log     *slog.Logger

	decide.Purges
	tried    map[string]string // releases whose purge has failed, and the task in its own queue that tries again
	ending   []string          // purges that are given up
	awaiting []*actor.PID      // discoveries that wait for their end
	reminded int               // how often a purge that is held back was reported
}

// begins reports whether a task is to purge its release: two uninstalls of one release would meet, and one that was
// given up is over.
func (p *purger) begins(t messages.Task, release string) bool {
	again := t.Queue == purgeQueue
	if tried := p.tried[release] != ""; tried != again {
		return false
	}
	if again {
		p.tried[release] = t.ID
	}
	return true
}

// ended forgets a purge; done: the release is gone.
func (p *purger) ended(release string, done bool) {
	delete(p.tried, release)
	if done {
		delete(p.Allowed, release)
	}
}

// later tries a purge again that has failed.
func (p *purger) later(ctx actor.Context, t messages.Task) {
	again := p.program.task(messages.Converge, t.Work, messages.Cause{Activation: messages.ByPurgeFailed})
	again.Queue = purgeQueue
	if work, ok := t.Work.(messages.PurgeRelease); ok {
		p.tried[work.Release] = again.ID
	}
	p.program.enqueue(ctx, false, again)
}

// giveUp cancels what waits for another attempt, too: it might begin in parallel with a run of
// the module, and what it has removed would be taken for what the run has installed.
func (p *purger) giveUp(ctx actor.Context, modules []addons.Module) {
	for _, m := range modules {
		if id := p.tried[m.Name]; p.runs.Has(id) {
			p.runs.Cancel(ctx, id)
			p.ending = append(p.ending, id)
		}
		delete(p.tried, m.Name) // one that has not begun is refused
	}
	p.awaiting = append(p.awaiting, ctx.Sender())
	p.answer(ctx)
}

// answer answers those who wait for the end of purges.
func (p *purger) answer(ctx actor.Context) {
	p.ending = slices.DeleteFunc(p.ending, func(id string) bool { return !p.runs.Has(id) })
	if len(p.ending) > 0 {
		return
	}
	for _, pid := range p.awaiting {
		ctx.Send(pid, work.PurgesEnded{})
	}
	p.awaiting = nil
}
