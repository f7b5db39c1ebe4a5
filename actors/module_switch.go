package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/messages"
	"addon-operator/supervisor"
)

// How a module is switched off and on. Flags suspend it at once, before the reload that
// deletes it: a task that keeps failing must not delay that. Until then nothing is lost.

// missed keeps a task that ends because the module is switched off: when it is switched
// on again before it was deleted, nothing has happened (E14), and the task is due. Of the
// ticks of a schedule one is: the reload may be held up for days.
func (m *module) missed(t messages.Task) {
	if m.phase != messages.Suspended || slices.ContainsFunc(m.missedTasks, func(kept messages.Task) bool { return repeats(t, kept) }) {
		return
	}
	m.missedTasks = m.program.wait(m.missedTasks, t)
}

// catchUp queues the tasks again that were missed.
func (m *module) catchUp(ctx actor.Context) {
	for _, t := range m.missedTasks {
		m.again(ctx, t)
	}
	m.missedTasks = nil
}

func (m *module) again(ctx actor.Context, t messages.Task) {
	t.ID = m.program.runs.NewTaskID()
	m.program.enqueue(ctx, false, t)
}

// deleted ends a delete: nothing of the module is left but its static values, and under
// maintenance its release.
func (m *module) deleted(ctx actor.Context, result any) {
	if untouched, _ := result.(bool); untouched {
		m.retire(ctx)
		return
	}
	m.stopListening(ctx)
	m.reset()
	m.wanted, m.begun = false, false
	m.become(messages.Disabled)
	ctx.Send(m.program.PID(convergePath), messages.ModuleDeleted{Name: m.name})
	m.log.Info("module is deleted")
}

func (m *module) off() bool {
	return m.phase == messages.Disabled || m.phase == messages.Suspended || m.phase == messages.Deleting
}

// suspend cancels what runs: the module is about to be disabled. A delete goes on. A module
// whose first run has not begun must not begin it; the reload that follows enables it again
// when it is switched on by then.
func (m *module) suspend(ctx actor.Context) {
	if m.phase == messages.Disabled && m.wanted {
		m.forget(ctx)
	}
	if m.off() {
		return
	}
	m.forgetRelease()
	m.become(messages.Suspended)
	m.loading = loading{} // it is cancelled, and who waits for it
	m.discardResults()
	m.dropNext(ctx)
	m.CancelAll(ctx, supervisor.ErrCancelled)
}

// forget ends everything of a module, as when its directory is gone.
func (m *module) forget(ctx actor.Context) {
	m.loading = loading{} // it is cancelled, and who waits for it
	m.discardResults()
	m.dropNext(ctx)
	m.CancelAll(ctx, supervisor.ErrCancelled)
	m.stopListening(ctx)
	m.begun = m.begun || m.loaded && m.phase != messages.Disabled
	m.reset()
	m.wanted = false
	m.become(messages.Disabled)
}

// stopListening ends the watches, schedules and queues of the module's hooks (G6.4).
func (m *module) stopListening(ctx actor.Context) {
	m.stopDelayed()
	m.forgetDrift(ctx)
	m.leaveQueues(ctx)
	ctx.Send(m.program.PID(monitorsPath), messages.Unwatch{Owner: m.name})
	m.forgetRelease()
	ctx.Send(m.program.PID(schedulePath), messages.StopSchedules{Owner: m.name})
	m.program.Metrics.ForgetModule(m.name)
}

// resume undoes suspend: the flag was switched back before the reload came (E14). A
// delete that has begun cannot be undone: what is left of it is cancelled, and the
// module starts from the beginning.
func (m *module) resume(ctx actor.Context) {
	switch {
	case m.phase == messages.Deleting:
		m.forget(ctx)
	case m.phase == messages.Suspended && m.started:
		m.catchUp(ctx)
		m.become(messages.Ready)
	case m.phase == messages.Suspended:
		m.catchUp(ctx)
		m.become(messages.Starting)
	}
}
