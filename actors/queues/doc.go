// Package queues is the actor of one queue: a FIFO of tasks with one in progress (F1). It does not know what a task does.
//
// queue.go receives; line.go are the tasks that wait, and which of them make others needless. What goes past a task that
// fails is in held.go, past one that waits for a Helm hook or for another module in passed.go. aside.go keeps what waits for snapshots.
package queues
