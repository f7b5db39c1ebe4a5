package modules

import (
	"context"
	"errors"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// loading loads the hooks of a module, in a run of its own: from the moment when a discovery has
// enabled the module, while the modules before it are still being installed. With many modules the
// questions for --config take as long as all hooks of the first converge. The runs of all modules
// take turns, so that hooks are asked in alphabetical order (C3); a module that needs its hooks at
// once does not wait for its turn.
type loading struct {
	owner *owner         // of the module
	dir   *addons.Module // of the module, as it is now
	life  *moduleLife    // of the module

	done  bool // the hooks were asked for their configuration
	count int  // of attempts
	loadAttempt
}

// loadAttempt is what is remembered while hooks are loaded.
type loadAttempt struct {
	// id is that of the run. Each attempt has its own: a message of a cancelled run may arrive
	// after its end, and would be taken for the result of the next.
	id       string
	needed   context.CancelFunc // ends the wait for its turn
	awaiting []*actor.PID       // runs that need the hooks
	err      error              // why it has failed
}

// answer answers a run that needs the hooks, at once or when they are loaded. Of a module that is
// switched off only a cancelled run asks, and it gets an error; a delete, too, runs hooks, and gets
// them.
func (l *loading) answer(ctx actor.Context) {
	switch {
	case l.done:
		ctx.Respond(work.Handed{Known: l.owner.self.known()})
		return
	case l.life.off() && l.life.phase != view.Deleting:
		ctx.Respond(work.Handed{Known: l.owner.self.known(), Err: errNotLoaded})
		return
	}
	l.awaiting = append(l.awaiting, ctx.Sender())
	l.begin(ctx)
	l.needed() // hooks of others, which are not needed yet, may hang
}

// begin begins to load the hooks, unless that has begun. A failure is the answer to all who wait.
// There is no retry here: the module run that needs the hooks fails with it, and asks again at its
// next attempt.
func (l *loading) begin(ctx actor.Context) {
	if l.done || l.owner.tasks.runs.Has(l.id) {
		return
	}
	p, dir := l.owner.program, *l.dir
	turn, needed := context.WithCancel(context.Background())
	l.count++
	l.id, l.needed, l.err = "load-hooks-"+strconv.Itoa(l.count), needed, nil
	l.owner.tasks.runs.Start(ctx, supervisor.Task{
		ID: l.id, AllowFailure: true,
		Work: func(run *supervisor.Run) (any, error) {
			defer context.AfterFunc(run.Context(), needed)()
			run.Step("wait until other modules have loaded their hooks")
			if p.Loads.Acquire(turn, 1) == nil {
				defer p.Loads.Release(1)
			}
			run.Step("run hooks with --config")
			return p.Runs.LoadModuleHooks(run.Context(), dir)
		},
		Succeeded: func(ctx actor.Context, result any) {
			if found, _ := result.([]hooks.Hook); !l.done { // else newer ones are there
				l.have(ctx, found)
			}
		},
		Failed: func(a supervisor.Attempt) { l.err = a.Err },
		Ended: func(ctx actor.Context, _ supervisor.Outcome) {
			needed()
			l.ended(ctx)
		},
	})
}

// have takes over hooks that were asked for their configuration. The root learns which queues they
// name, before a task for one of these can come (F1).
func (l *loading) have(ctx actor.Context, found []hooks.Hook) {
	l.owner.hooks.all, l.done = found, true
	l.owner.program.NameQueues(ctx, found)
	l.owner.program.Metrics.Hooks.Loaded(l.owner.name, found)
}

// ended answers those who wait. A run that has brought neither hooks nor an error was cancelled;
// who waits now came while it was ending, so it begins again.
func (l *loading) ended(ctx actor.Context) {
	if len(l.awaiting) == 0 {
		return
	}
	answer := work.Handed{Known: l.owner.self.known()}
	if !l.done {
		if l.err == nil && !l.owner.tasks.runs.Ending() {
			l.begin(ctx)
			return
		}
		answer.Err = l.err
		if answer.Err == nil {
			answer.Err = errNotLoaded
		}
	}
	for _, pid := range l.awaiting {
		ctx.Send(pid, answer)
	}
	l.awaiting = nil
}

// errNotLoaded is the answer of a module that stops, or is switched off.
var errNotLoaded = errors.New("the module was stopped or disabled before its hooks were loaded")
