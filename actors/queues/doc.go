// Package queues is the actor of one queue: a FIFO of tasks with one in progress (F1). It does not know what a task does.
//
// queue.go is the head and what happens to it; line.go are the tasks that wait, and which of them make others needless.
package queues
