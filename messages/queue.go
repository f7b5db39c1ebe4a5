package messages

// Enqueue adds tasks to a queue, in the given order: at its tail, or before everything
// that waits (F4, F5).
type Enqueue struct {
	Queue string
	Tasks []Task
	Head  bool
}

// ExecuteTask asks an owner to do the head of a queue. The answer is one TaskDone.
type ExecuteTask struct{ Task Task }

// TaskDone notifies a queue that it need not wait for a task any more: nothing of it runs, or it goes on outside of
// the queue. It is sent once for each ExecuteTask.
type TaskDone struct {
	ID string
	// Held: it has not ended. It goes on when it is executed again.
	Held bool
}

// TaskFailed notifies a queue that an attempt at its task, or at a part of it, has failed, and that the owner will try
// it again.
type TaskFailed struct{ ID string }

// EndAttempts asks the owner of a failing head to make no further attempt: a task is due that makes this one needless,
// or, with Hold, that comes before the next attempt. The answer is [TaskDone], when the attempt in progress has ended.
type EndAttempts struct {
	ID   string // of the task, or of the group that it is a part of
	Hold bool
}
