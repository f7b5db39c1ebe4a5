package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/messages"
	"addon-operator/supervisor"
)

// How a module is switched off and on. Flags suspend it at once, before the reload that
// deletes it: a task that keeps failing must not delay that. Until then nothing is lost.

// miss keeps a task that has ended because the module is switched off: when it is switched on again before it was
// deleted, nothing has happened (E14), and the task is due. Of the ticks of a schedule one is: the reload may be held up for days.
func (m *module) miss(t messages.Task) {
	if m.life.phase == messages.Suspended && !slices.ContainsFunc(m.missed, func(kept messages.Task) bool { return repeats(t, kept) }) {
		m.missed = m.program.wait(m.missed, t)
	}
}

// again queues tasks that did not end as they should.
func (p *program) again(ctx actor.Context, tasks ...messages.Task) {
	for _, t := range tasks {
		t.ID = p.newTaskID()
		p.enqueue(ctx, false, t)
	}
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
	m.begun = false
	m.life.become(messages.Disabled)
	ctx.Send(m.program.PID(convergePath), messages.ModuleDeleted{Name: m.name})
	m.log.Info("module is deleted")
}

// suspend cancels what runs: the module is about to be disabled. A delete goes on. A module
// whose first run has not begun must not begin it; the reload that follows enables it again
// when it is switched on by then.
func (m *module) suspend(ctx actor.Context) {
	if m.life.phase == messages.Waiting {
		m.forget(ctx)
	}
	if m.life.off() {
		return
	}
	m.forgetRelease()
	m.life.become(messages.Suspended)
	m.loading = loading{} // it is cancelled, and who waits for it
	m.owner.discardResults()
	m.owner.dropNext(ctx)
	m.owner.runs.CancelAll(ctx, supervisor.ErrCancelled)
}

// forget ends everything of a module, as when its directory is gone.
func (m *module) forget(ctx actor.Context) {
	m.loading = loading{} // it is cancelled, and who waits for it
	m.owner.discardResults()
	m.owner.dropNext(ctx)
	m.owner.runs.CancelAll(ctx, supervisor.ErrCancelled)
	m.stopListening(ctx)
	m.begun = m.begun || m.loaded && m.life.phase != messages.Disabled && m.life.phase != messages.Waiting
	m.reset()
	m.life.become(messages.Disabled)
}

// stopListening ends the watches, schedules and queues of the module's hooks (G6.4).
func (m *module) stopListening(ctx actor.Context) {
	m.delayed.stop()
	m.forgetDrift(ctx)
	m.program.leaveQueues(ctx, m.name, m.owner.hooks)
	ctx.Send(m.program.PID(monitorsPath), messages.Unwatch{Owner: m.name})
	m.forgetRelease()
	ctx.Send(m.program.PID(schedulePath), messages.StopSchedules{Owner: m.name})
	m.program.Metrics.ForgetModule(m.name)
}

// resume undoes suspend: the flag was switched back before the reload came (E14). A
// delete that has begun cannot be undone: what is left of it is cancelled, and the
// module starts from the beginning.
func (m *module) resume(ctx actor.Context) {
	switch m.life.phase {
	case messages.Deleting:
		m.forget(ctx)
	case messages.Suspended:
		m.program.again(ctx, m.missed...)
		m.missed = nil
		m.life.become(m.life.resumes)
	}
}
