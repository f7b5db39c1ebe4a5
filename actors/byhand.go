package actors

import (
	"fmt"

	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// ByHand is what a person may ask of an operator in the same process, as the command dev does. It becomes a task like any other.
type ByHand struct{ program *shared.Program }

// ByHand returns what a person may ask of the operator.
func (o *Operator) ByHand() ByHand { return ByHand{o.program} }

// RunHookAgain queues a run of a hook with the contexts of an earlier one, in the same queue. The
// snapshots are those of the new run. The owner refuses the task of a hook that is not loaded any
// more.
func (h ByHand) RunHookAgain(run view.HookRun) error {
	if err := h.known(messages.ModuleOf(run.Owner)); err != nil {
		return err
	}
	t := h.program.NewTask(run.Owner, run.Again(), messages.Cause{Activation: messages.ByHand, Detail: run.Hook})
	t.Queue = run.Queue
	h.program.Enqueue(h.program, false, t)
	return nil
}

// known refuses a module that cannot run; empty is none, for global hooks. It reads what the module
// has published, so it may be wrong by a moment: then the module ends the task as done (E12).
func (h ByHand) known(module string) error {
	if module == "" {
		return nil
	}
	status, ok := h.program.Inspector.Status(work.ModulePath + module).(view.ModuleStatus)
	switch {
	case !ok:
		return fmt.Errorf("there is no module %s", module)
	case status.Phase == view.Disabled || status.Phase == view.Suspended || status.Phase == view.Deleting:
		return fmt.Errorf("module %s does not run: it is %s", module, status.Phase)
	}
	return nil
}
