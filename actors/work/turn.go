package work

import (
	"addon-operator/messages"
	"addon-operator/supervisor"
)

// AwaitTurn is the beginning of an attempt at a task that has failed before: what has gone past it
// in its queue meanwhile must end first (F6). The first attempt has its turn: the queue has just
// begun the task.
func (j Job) AwaitTurn(run *supervisor.Run) error {
	if run.Attempt() == 0 {
		return nil
	}
	run.Step("wait for tasks that have passed it in the queue")
	turn, err := supervisor.Ask[messages.Turn](run, QueuePath+j.Task.Queue, messages.GetTurn{ID: j.Task.InQueue()})
	if ended := run.Context().Err(); ended != nil {
		return ended
	}
	if err != nil || !turn.Waited || j.Known == nil { // a queue that is gone holds nothing up
		return nil //nolint:nilerr // as it says
	}
	return j.ask(run, HandOver{}) // what went past the task may have changed the values
}
