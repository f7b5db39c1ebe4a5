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
	span       work.Span // of the start-up and the reload in progress
	// globalChanged: afterAll hooks of this reload have changed global values, so the next one is due (G8).
	globalChanged bool
	ready         bool // the first converge is over

	// restarts counts since a reload has last ended without another one being asked for.
	restarts int
	// postponed is the latest cause of the reload that follows the one in progress; nil for none.
	postponed *messages.Cause
	told      bool // the postponement was logged; until a reload ends with nothing postponed
	held      int  // the number of the reload that one of its steps holds up now; 0 for none
	holds     int  // counts reports of that, so that a timer recognises an old one
	due       int  // the value of holds that a timer is running for
}

// discovers reports whether a discovery reads the disk, or is about to.
func (r *reloads) discovers() bool {
	return r.number == 0 || r.phase == reloading && r.discoveredIn != r.number
}

// heldReload is how long a reload that is postponed waits for one that is held up.
const heldReload = 30 * time.Second

// postpones reports whether a request must wait for the end of the reload in progress. It does not
// if that reload cannot end: a task of main waits for a Helm hook, or a step fails and the request
// is an edit of a person, which may be the fix.
func (r *reloads) postpones(ctx actor.Context, cause messages.Cause) bool {
	if r.restarts < maxRestarts || r.program.MainWaits.Load() || // then the one in progress cannot end
		r.held == r.number && cause.First().Activation == messages.ByConfigMap {
		return false
	}
	if r.postponed == nil {
		r.program.Metrics.Converge.Postponed(cause)
	}
	if !r.told {
		r.log.Warn("reloads of all modules are restarted again and again: the one in progress ends before the next one starts; fix what changes so often", "restarts", r.restarts, "cause", cause)
		r.program.Notify(kube.Notice{Warning: true, Reason: "ReloadPostponed", Message: "Reloads of all modules are restarted again and again, so each one ends before the next one starts. What changes so often: " + cause.String()})
	}
	if r.postponed != nil {
		r.adds(*r.postponed)
	}
	r.postponed, r.told = &cause, true
	r.unlessHeld(ctx)
	return true
}

// heldUp is called when a step of a reload begins to fail or to wait, and when none does any more.
// A postponed reload must not wait for that without end.
func (r *reloads) heldUp(ctx actor.Context, msg messages.ReloadHeld) {
	r.held = msg.Reload
	r.holds++
	r.unlessHeld(ctx)
}

// unlessHeld starts a timer for the postponed reload if the one in progress is held up: after
// heldReload it gives up the one in progress.
func (r *reloads) unlessHeld(ctx actor.Context) {
	if r.held != r.number || r.postponed == nil || r.due == r.holds {
		return
	}
	r.due = r.holds
	r.program.SendLater(ctx, heldReload, postponedDue{r.number, r.holds})
}

// postponedDue is sent by that timer; a change of either number since makes it void.
type postponedDue struct{ reload, holds int }

// giveUp starts a reload again that is still held up after heldReload.
func (r *reloads) giveUp(ctx actor.Context, msg postponedDue) {
	if msg.reload == r.number && r.phase == reloading && r.postponed != nil && r.held == r.number && r.holds == msg.holds {
		r.restart(ctx, *r.postponed)
	}
}

// beginPostponed asks for the reload that has waited for the end of another one.
func (r *reloads) beginPostponed(ctx actor.Context) {
	next := r.postponed
	if next == nil {
		r.restarts, r.told, r.held, r.holds, r.due = 0, false, 0, 0, 0
		return
	}
	r.request(ctx, *next)
	r.postponed = nil
}

// request queues 'reload all modules': at the tail of main (F4), or, while one is in progress, in
// place of its pending steps (F10), unless that has happened too often. One that waits serves all
// requests (F9).
func (r *reloads) request(ctx actor.Context, cause messages.Cause) {
	next := requested
	switch r.phase {
	case starting, requested, overtaken:
		r.adds(cause)
		return
	case created:
		next = starting
	case reloading:
		if !r.postpones(ctx, cause) {
			r.restart(ctx, cause)
		}
		return
	}
	r.program.Enqueue(ctx, false, r.program.NewTask(messages.Converge, messages.ReloadModules{Cause: cause}, cause))
	r.become(next)
}

// adds has the next reload name other causes, too, of which the first ones are kept.
func (r *reloads) adds(causes ...messages.Cause) {
	r.next = messages.Task{Cause: causes[0], Also: r.next}.For(causes[1:]...).Causes()
}

// delayedReload is a reload that waited because it is part of a loop.
type delayedReload struct{ cause messages.Cause }

// requestUnlooped is request for what hooks have caused: a cause that goes round in a loop waits
// first.
func (r *reloads) requestUnlooped(ctx actor.Context, cause messages.Cause) {
	d := shared.LoopDelay(cause)
	if d == 0 {
		r.request(ctx, cause)
		return
	}
	r.program.Looping(r.log, messages.GlobalHooks, "reload", cause, d)
	r.program.SendLater(ctx, d, delayedReload{cause})
}

// restart replaces what is left of the reload in progress by the next one. DropTasks goes out
// before the new task, on the same way, so it cannot drop that.
func (r *reloads) restart(ctx actor.Context, cause messages.Cause) {
	r.log.Info("reload of all modules starts again", "cause", cause)
	ctx.Send(r.program.PID(work.QueuePath+messages.MainQueue), messages.DropTasks{Reload: r.number})
	ctx.Send(r.program.PID(work.GlobalPath), messages.DropTasks{Reload: r.number})
	r.program.Enqueue(ctx, true, r.program.NewTask(messages.Converge, messages.ReloadModules{Cause: cause}, cause))
	if r.discovers() { // else its steps that were dropped have its causes
		r.adds(append(r.also, r.cause)...)
	}
	r.restarts++
	r.postponed = nil // it is the next one
	r.program.Metrics.Converge.Restarted(cause)
	r.become(overtaken)
}

// begin puts the beforeAll hooks and the discovery at the head of main (G3, G4, F5). The first
// reload continues the span of the start-up.
func (r *reloads) begin(ctx actor.Context, global []hooks.Hook, cause messages.Cause) {
	r.become(reloading)
	all := messages.Task{Cause: cause, Also: r.next}.For()
	r.cause, r.also, r.next = all.Cause, all.Also, nil
	cause = r.cause
	r.number++
	r.began, r.globalChanged = time.Now(), false
	if r.number > 1 {
		r.span.End(nil) // it was overtaken, or is over
		r.span = r.program.ConvergeSpan(r.number, cause)
	}
	var tasks []messages.Task
	for _, hook := range hooks.ByOrder(global, hooks.BeforeAll) {
		tasks = append(tasks, r.program.NewTask(messages.GlobalHooks, work.OrderWork(hook, hooks.BeforeAll), cause))
	}
	tasks = append(tasks, r.program.NewTask(messages.Converge, messages.DiscoverModules{}, cause))
	for i := range tasks {
		tasks[i].Reload = r.number
	}
	r.enqueue(ctx, true, tasks)
}

// enqueue queues tasks as parts of the reload in progress.
func (r *reloads) enqueue(ctx actor.Context, head bool, tasks []messages.Task) {
	for i := range tasks {
		tasks[i].Trace, tasks[i].Also = r.span.Name(), r.also
	}
	r.program.Enqueue(ctx, head, tasks...)
}
