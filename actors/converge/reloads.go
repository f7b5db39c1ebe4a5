package converge

import (
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
)

// maxRestarts is how often a reload may be started again before it is finished first.
const maxRestarts = 3

// reloads is the part of converge that begins reloads, starts them again and ends them: one at a
// time, by the phases of convergePhase.
//
// A change of global values starts the reload in progress again (F10). What changes more often than
// a reload takes would keep the last modules from ever running. So a reload that was started again
// maxRestarts times is finished first, and then the next begins. As long as another one is
// requested during each, none is started again.
type reloads struct {
	program *shared.Program
	log     *slog.Logger

	phase  convergePhase
	number int // of the last reload that has begun; 0 before the first
	// discoveredIn is the number of the last reload whose discovery counts.
	discoveredIn int
	began        time.Time
	cause        messages.Cause
	// also are the other causes of the reload in progress, and next those of the one that comes.
	also, next []messages.Cause
	span       work.Span      // of the start-up and the reload in progress
	discovery  work.Discovery // the last one that counts
	ready      bool           // the first converge is over
	delayed    bool           // a delayedReload is on its way

	// restarts counts since a reload has last ended without another one being asked for.
	restarts int
	// postponed is the latest cause of the reload that follows the one in progress; nil for none.
	postponed *messages.Cause
	told      bool // the postponement was logged; until a reload ends with nothing postponed
}

// discovers reports whether a discovery reads the disk, or is about to.
func (r *reloads) discovers() bool {
	return r.number == 0 || (r.phase == reloading || r.phase == postponed) && r.discoveredIn != r.number
}

// request queues 'reload all modules': at the tail of main (F4), or, while one is in progress, in
// place of its pending steps (F10). One that waits serves all requests (F9). If that has happened too often, the reload in
// progress ends first, unless its head fails: then the queue lets the next one replace it.
func (r *reloads) request(ctx actor.Context, cause messages.Cause) {
	switch r.phase {
	case starting, requested, overtaken, postponed:
		r.adds(cause)
		if r.phase == postponed {
			r.postponed = &cause
		}
	case reloading:
		if r.restarts < maxRestarts {
			r.restart(ctx, cause)
			return
		}
		r.postpone(cause)
		r.program.Enqueue(ctx, false, r.program.NewTask(messages.Converge, messages.ReloadModules{}, cause))
	default:
		next := requested
		if r.phase == created {
			next = starting
		}
		r.become(next)
		r.program.Enqueue(ctx, false, r.program.NewTask(messages.Converge, messages.ReloadModules{}, cause))
	}
}

// postpone notes and reports a reload that follows the one in progress.
func (r *reloads) postpone(cause messages.Cause) {
	r.program.Metrics.Converge.Postponed(cause)
	if !r.told {
		r.log.Warn("reloads of all modules are restarted again and again: the one in progress ends before the next one starts; fix what changes so often", "restarts", r.restarts, "cause", cause)
		r.program.Notify(kube.Notice{Warning: true, Reason: "ReloadPostponed", Message: "Reloads of all modules are restarted again and again, so each one ends before the next one starts. What changes so often: " + cause.String()})
	}
	r.postponed, r.told = &cause, true
	r.become(postponed)
}

// ended ends a reload, and returns the phase that follows.
func (r *reloads) ended() convergePhase {
	if r.phase == postponed {
		r.postponed = nil
		return requested // its task waits
	}
	r.restarts, r.told = 0, false
	return idle
}

// adds has the next reload name other causes, too, of which the first ones are kept.
func (r *reloads) adds(causes ...messages.Cause) {
	r.next = messages.Task{Cause: causes[0], Also: r.next}.For(causes[1:]...).Causes()
}

// delayedReload is a reload that waited because it is part of a loop.
type delayedReload struct{ cause messages.Cause }

// requestUnlooped is request for what hooks have caused: a cause that goes round in a loop waits
// first. One reload that waits serves all.
func (r *reloads) requestUnlooped(ctx actor.Context, cause messages.Cause) {
	switch d := shared.LoopDelay(cause); {
	case d == 0:
		r.request(ctx, cause)
	case r.delayed:
		r.adds(cause)
	default:
		r.delayed = true
		r.program.Looping(r.log, messages.GlobalHooks, cause, d)
		r.program.SendLater(ctx, d, delayedReload{cause})
	}
}

// restart has the queue replace what is left of the reload in progress by the next one.
func (r *reloads) restart(ctx actor.Context, cause messages.Cause) {
	r.log.Info("reload of all modules starts again", "cause", cause)
	if r.discovers() { // else its steps that are replaced have its causes
		r.adds(append(r.also, r.cause)...)
	}
	r.restarts++
	r.postponed = nil // it is the next one
	r.program.Metrics.Converge.Restarted(cause)
	r.become(overtaken)
	r.program.Enqueue(ctx, true, r.program.NewTask(messages.Converge, messages.ReloadModules{}, cause))
}

// begin puts the beforeAll hooks and the discovery at the head of main (G3, G4, F5). Without such hooks the task itself
// is the discovery, which it returns. The first reload continues the span of the start-up.
func (r *reloads) begin(ctx actor.Context, global []hooks.Hook, t messages.Task) (discovery *messages.Task) {
	if r.phase == postponed { // the head of the one before fails
		r.postponed = nil
		r.log.Info("reload of all modules starts again", "cause", t.Cause)
	}
	r.become(reloading)
	all := t.For(r.next...)
	cause := all.Cause
	r.cause, r.also, r.next = cause, all.Also, nil
	r.number++
	r.began = time.Now()
	if r.number > 1 {
		r.span.End(nil) // it was overtaken, or is over
		r.span = r.program.ConvergeSpan(r.number, cause)
	}
	var tasks []messages.Task
	for _, hook := range hooks.ByOrder(global, hooks.BeforeAll) {
		tasks = append(tasks, r.program.NewTask(messages.GlobalHooks, work.OrderWork(hook, hooks.BeforeAll), cause))
	}
	if len(tasks) == 0 {
		t.Work, t.Reload, t.Cause, t.Also, t.Trace = messages.DiscoverModules{}, r.number, cause, r.also, r.span.Name()
		return &t
	}
	tasks = append(tasks, r.program.NewTask(messages.Converge, messages.DiscoverModules{}, cause))
	for i := range tasks {
		tasks[i].Reload = r.number
	}
	r.enqueue(ctx, true, tasks)
	return nil
}

// enqueue queues tasks as parts of the reload in progress.
func (r *reloads) enqueue(ctx actor.Context, head bool, tasks []messages.Task) {
	for i := range tasks {
		tasks[i].Trace, tasks[i].Also = r.span.Name(), r.also
	}
	r.program.Enqueue(ctx, head, tasks...)
}
