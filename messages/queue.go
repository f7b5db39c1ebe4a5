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
