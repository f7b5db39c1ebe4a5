package actors

import (
	"maps"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/queues"
	"addon-operator/actors/work"
	"addon-operator/hooks"
	"addon-operator/messages"
)

// namedQueues is what the root knows of queues (F1). It spawns a queue with the first hook that
// names it, and ends it after the last (F1). A queue that is to end first hands out the tasks that
// it has, which their owners drop (E12); once empty it reports that and is stopped. A task that
// arrives later begins it again.
//
//	named -hooks gone-> ending -empty-> stopping -terminated-> gone
//	                          -named again-> named
//
// Queues of the operator's own begin with their first task and stay.
type namedQueues struct {
	users  map[string][]string // the queues that hooks name, by owner
	named  map[string]bool     // those of all owners
	asked  int                 // counts the questions
	ending map[string]int      // the last question to each queue that no hook names
	// stopping are the queues that are about to terminate, with what has come for them since.
	stopping map[string][]messages.Enqueue
}

func newNamedQueues() namedQueues {
	return namedQueues{users: map[string][]string{}, ending: map[string]int{}, stopping: map[string][]messages.Enqueue{}}
}

// stays reports whether a queue does not end by itself.
func (q namedQueues) stays(name string) bool {
	return q.named[name] || name == messages.MainQueue || strings.HasPrefix(name, hooks.ReservedQueues)
}

// useQueues begins the queues that an owner names from now on, and ends those that no hook names any more.
func (o *operator) useQueues(ctx actor.Context, msg messages.UseQueues) {
	if o.stopping {
		return
	}
	o.queues.users[msg.Owner] = msg.Queues
	o.queues.named = map[string]bool{}
	for _, names := range o.queues.users {
		for _, name := range names {
			o.queues.named[name] = true
		}
	}
	for _, name := range msg.Queues {
		delete(o.queues.ending, name)
		o.spawnQueue(ctx, name)
	}
	for _, child := range slices.Sorted(maps.Keys(o.children)) {
		name, ok := strings.CutPrefix(child, work.QueuePath)
		_, stops := o.queues.stopping[name]
		if ok && !stops && o.queues.ending[name] == 0 {
			o.endUnnamed(ctx, name)
		}
	}
}

// endUnnamed asks a queue to end, unless a hook names it.
func (o *operator) endUnnamed(ctx actor.Context, name string) {
	if o.queues.stays(name) {
		return
	}
	o.queues.asked++
	o.queues.ending[name] = o.queues.asked
	ctx.Send(o.program.PID(work.QueuePath+name), messages.EndQueue{Number: o.queues.asked})
}

// queueEmpty stops a queue, unless a hook names it again or it has received a task since. The
// number of the question tells the two cases apart: an answer to an older question is out of date.
// From here on tasks are kept in stopping, because a message to an actor that stops is lost.
func (o *operator) queueEmpty(ctx actor.Context, msg messages.QueueEmpty) {
	if o.stopping || o.queues.ending[msg.Name] != msg.Number {
		return
	}
	o.queues.stopping[msg.Name] = nil
	ctx.Stop(o.program.PID(work.QueuePath + msg.Name))
	delete(o.queues.ending, msg.Name)
}

// queueTerminated forgets a queue, and begins it again if a hook names it or tasks have arrived
// meanwhile.
func (o *operator) queueTerminated(ctx actor.Context, who *actor.PID) {
	name, ok := strings.CutPrefix(who.Id, work.QueuePath)
	if !ok || o.stopping {
		return
	}
	late, ok := o.queues.stopping[name]
	if !ok {
		return
	}
	o.program.Metrics.Queues.Forget(name)
	delete(o.children, who.Id)
	delete(o.queues.stopping, name)
	if o.queues.stays(name) {
		o.spawnQueue(ctx, name)
	}
	for _, msg := range late {
		o.enqueue(ctx, msg)
	}
}

// enqueue hands tasks to a queue, which is begun when it is not there.
func (o *operator) enqueue(ctx actor.Context, msg messages.Enqueue) {
	if o.stopping {
		return // no new tasks
	}
	if late, stops := o.queues.stopping[msg.Queue]; stops {
		o.queues.stopping[msg.Queue] = append(late, msg)
		return
	}
	o.spawnQueue(ctx, msg.Queue)
	ctx.Send(o.program.PID(work.QueuePath+msg.Queue), msg)
	o.endUnnamed(ctx, msg.Queue)
}

// spawnQueue does nothing for a queue that exists.
func (o *operator) spawnQueue(ctx actor.Context, name string) {
	o.spawn(ctx, stageQueues, work.QueuePath+name, queues.New(o.program, name))
}
