package modules

import (
	"log/slog"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/messages"
	"addon-operator/values"
)

// owner is what a module and the global hooks have in common: it is the single writer of one
// section of values, has hooks, and supervises the runs of its tasks. Its three parts know each
// other only as far as they must, so that each can be read alone.
type owner struct {
	part
	// workingDir is WORKING_DIR of its hooks: the root in which they are searched (C23).
	workingDir string
	limits     work.Limits
	// unfinished are effects of hooks that were committed but not written to the cluster yet. They
	// survive the attempt, so that a retry writes them without running the hook again (D26).
	unfinished *work.Unfinished

	tasks  *ownTasks
	hooks  *ownHooks
	values *ownValues
}

// part is what each part of an owner knows of the whole.
type part struct {
	self    applier // the actor whose part it is
	program *shared.Program
	name    string // module name, or messages.GlobalHooks
	log     *slog.Logger
}

func newOwner(self applier, p *shared.Program, name, workingDir string, log *slog.Logger, section *values.Section) *owner {
	of, unfinished := part{self, p, name, log}, &work.Unfinished{}
	tasks := newTasks(of, unfinished)
	o := &owner{part: of, workingDir: workingDir, unfinished: unfinished, tasks: tasks, hooks: newHooks(of, tasks), values: &ownValues{part: of, section: section, unfinished: unfinished}}
	// the two parts need each other: hooks cancels tasks, and the end of a task allows its
	// Synchronization to be queued again
	tasks.over = o.hooks.unqueued
	return o
}

// receive handles the messages that all owners understand, and reports whether the message was one
// of them. The messages of runs come first: a run that has ended must be forgotten before anything
// else looks at it.
func (o *owner) receive(ctx actor.Context) bool {
	if o.tasks.runs.Receive(ctx) {
		return true
	}
	switch msg := ctx.Message().(type) {
	case messages.ApplyHookResult:
		o.values.apply(ctx, application{msg: msg, from: ctx.Sender()})
	case messages.ConfigSaved:
		o.values.configSaved(ctx, msg)
	case messages.SetConfig:
		o.values.setConfig(msg)
		o.tasks.retryNow()
	case messages.BindingSettled:
		o.hooks.bindingSettled(ctx, msg)
	case messages.AwaitSynchronized:
		o.hooks.await(ctx, msg)
	case messages.RetryNow:
		o.tasks.retryNow()
	case messages.EndAttempts:
		o.tasks.endAttempts(ctx, msg)
	case work.HandOver:
		ctx.Respond(work.Handed{Known: o.self.known()})
	default:
		return false
	}
	return true
}

// reset forgets what belongs to an enabled module only (E11): its hooks, the patches that they
// saved, and effects that were still due.
func (o *owner) reset() {
	o.hooks.reset()
	o.values.section = o.values.section.WithoutPatches()
	o.unfinished.Clear()
}

// job makes what a run needs to run hooks of this owner.
func (o *owner) job(t messages.Task) work.Job {
	return work.Job{Shared: o.program.Runs, Owner: o.name, WorkingDir: o.workingDir, Task: t, Known: &work.Known{}, Log: o.log, Limits: &o.limits, Unfinished: o.unfinished}
}

// known is the immutable value that an owner hands over to a run before each attempt and with each
// answer. Maps in it are copies. Modules add what only they know.
func (o *owner) known() work.Known {
	k := work.Known{Global: o.program.Global.Load(), Own: o.values.section, Enabled: o.program.EnabledModules()}
	o.hooks.handOver(&k)
	return k
}
