package messages

// UseQueues notifies the root which queues the hooks of an owner name; none when the hooks are gone.
type UseQueues struct {
	Owner  string
	Queues []string
}

// EndQueue asks a queue to send [QueueEmpty] when it has no task.
type EndQueue struct{ Number int }

// QueueEmpty answers EndQueue.
type QueueEmpty struct {
	Name   string
	Number int // of the question
}

// Enqueue adds tasks to a queue, in the given order: at its tail, or before everything
// that waits (F4, F5).
type Enqueue struct {
	Queue string
	Tasks []Task
	Head  bool
}

// DropTasks removes the steps of a reload that still wait, and ends an afterAll hook of it that
// fails (F10).
type DropTasks struct{ Reload int }

// ExecuteTask asks an owner to do the head of a queue. The answer is one TaskDone.
type ExecuteTask struct{ Task Task }

// SetAside asks a queue to keep a part of the task in progress, when that has ended, until the
// snapshots of the hook are complete.
type SetAside struct {
	ID   string
	Work RunHook
}

// LetPass notifies the main queue that the run or delete of a module waits for a Helm hook or for another module, or does
// not any more. While it waits, tasks that need not wait for it continue (H26).
type LetPass struct {
	// ID is that of the task. A run of several modules may have begun it: then the queue has no
	// task with this ID.
	ID    string
	Owner string
	Waits bool
}

// TaskDone notifies a queue that it need not wait for a task any more: nothing of it runs, or it is
// parked and retried outside of the queue. It is sent exactly once for each task.
type TaskDone struct {
	ID string
}

// TaskWaits notifies a queue that an attempt at its task, or at a part of it, has failed, and that
// the task waits for the next one. Nothing of it runs meanwhile, so other tasks may go past it
// (F6).
type TaskWaits struct{ ID string }

// GetTurn asks a queue whether the next attempt at a task that waits may begin. The answer is
// [Turn], as soon as nothing that has gone past the task is in progress.
type GetTurn struct{ ID string }

// Turn answers GetTurn.
type Turn struct {
	// Waited: something that had gone past the task was in progress.
	Waited bool
}

// ReloadHeld notifies converge that a step of a reload has failed, or waits for a Helm hook or for
// another module; or that none does any more.
type ReloadHeld struct {
	// Reload is its number; 0 for none.
	Reload int
}
