package converge

import (
	"log/slog"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/decide"
	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/supervisor"
)

// purgeQueue retries failed purges outside of the main queue, so that a release which
// cannot be removed blocks nothing else (E10).
const purgeQueue = hooks.ReservedQueues + "purge"

// purger carries out purges, and holds them back (purge_hold.go).
//
// A purge uninstalls the release of a module that has no directory (G7), if an operator has
// installed it: people and other programs may have releases in the namespace, too (P2). It is a
// step of a reload, tried once there. If it fails it is retried in purgeQueue, maybe for days; so
// each attempt asks whether it is still due.
type purger struct {
	program *shared.Program
	runs    *supervisor.Runs // of converge
	log     *slog.Logger

	decide.Purges
	tried    map[string]string // by release: the task in purgeQueue that tries again
	ending   []string          // IDs of purges that are cancelled and have not ended
	awaiting []*actor.PID      // discoveries that wait for their end
	reminded int               // counts reports of a held purge, so that an old reminder is recognised
}

// begins reports whether a task may purge its release. While one is tried again in purgeQueue, the
// step of a later reload does nothing: two uninstalls of one release must not run at the same time.
// A retry that was given up does nothing either.
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
	again := p.program.NewTask(messages.Converge, t.Work, messages.Cause{Activation: messages.ByPurgeFailed})
	again.Queue = purgeQueue
	if w, ok := t.Work.(messages.PurgeRelease); ok {
		p.tried[w.Release] = again.ID
	}
	p.program.Enqueue(ctx, false, again)
}

// giveUp cancels the purges of modules whose directories are back, before a discovery lets them
// run. Attempts that only wait are cancelled, too: one might begin in parallel with a run of the
// module, and remove what the run installs.
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
