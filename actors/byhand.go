package actors

import (
	"fmt"

	"addon-operator/messages"
	"addon-operator/messages/view"
)

// What a person may ask of an operator in the same process, as the command dev does. It becomes a task like any other.

// RunModule queues a run of a module that is enabled.
func (o *Operator) RunModule(name string) error {
	if err := o.known(name); err != nil {
		return err
	}
	o.byHand(o.program.task(name, messages.RunModule{}, messages.Cause{Activation: messages.ByHand}))
	return nil
}

// RunHookAgain queues a run of a hook with the contexts of an earlier one, in the same queue.
func (o *Operator) RunHookAgain(run view.HookRun) error {
	if err := o.known(messages.ModuleOf(run.Owner)); err != nil {
		return err
	}
	t := o.program.task(run.Owner, run.Again(), messages.Cause{Activation: messages.ByHand, Detail: run.Hook})
	t.Queue = run.Queue
	o.byHand(t)
	return nil
}

// RetryNow ends the waiting of the failed tasks of an owner, and of converge.
func (o *Operator) RetryNow(owner string) {
	o.Send(messages.Converge, messages.RetryNow{})
	if owner == messages.GlobalHooks {
		o.Send(owner, messages.RetryNow{})
	} else if o.known(owner) == nil {
		o.Send("module/"+owner, messages.RetryNow{})
	}
}

// known refuses a module that cannot run; empty is none.
func (o *Operator) known(module string) error {
	if module == "" {
		return nil
	}
	status, ok := o.program.Inspector.Status(modulePath + module).(view.ModuleStatus)
	switch {
	case !ok:
		return fmt.Errorf("there is no module %s", module)
	case status.Phase == view.Disabled || status.Phase == view.Suspended || status.Phase == view.Deleting:
		return fmt.Errorf("module %s does not run: it is %s", module, status.Phase)
	}
	return nil
}

// byHand queues a task, as program.enqueue does for an actor.
func (o *Operator) byHand(t messages.Task) {
	to := operatorPath
	if t.Queue == messages.MainQueue {
		to = queuePath + t.Queue
	}
	o.program.Send(o.program.PID(to), messages.Enqueue{Queue: t.Queue, Tasks: []messages.Task{t}})
}
