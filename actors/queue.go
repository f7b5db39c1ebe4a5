package actors

import (
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/metrics"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// queue is a FIFO of tasks with one in progress (F1). It does not know what a task
// does: it asks the owner to execute the head and goes on when the owner says that
// nothing of the task runs any more. The head stays the head while its owner retries
// it, so order holds without effort (F6); what goes past it meanwhile is in held.go.
type queue struct {
	program *program
	name    string

	pending []messages.Task
	current *messages.Task
	since   time.Time // the current task began
	held    []held    // tasks that wait for their next attempt, while others go past them
	turns   []turn    // attempts at these that wait for the current task
	ending  int       // the number of an endQueue that is not answered yet; 0 for none
	aside   []messages.Task
	left    *messages.RunHook // of the current task, to be set aside
	passed  []passedTask      // tasks that wait for Helm hooks (waiting.go)
	failed  []string          // the IDs of tasks that have failed and are not done
	holdsUp int               // the reload that steps of this queue hold up, as converge knows it; 0 for none
}

func newQueue(p *program, name string) *queue { return &queue{program: p, name: name} }

// Receive implements actor.Actor.
func (q *queue) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
	case messages.Enqueue:
		q.enqueue(msg)
	case messages.DropTasks:
		q.drop(msg)
	case messages.TaskDone:
		q.taskDone(ctx, msg)
	case messages.TaskWaits:
		q.taskWaits(msg)
	case messages.GetTurn:
		q.getTurn(ctx, msg)
	case messages.LetPass:
		q.letPass(msg)
	case messages.SetAside:
		q.setAside(msg)
	case messages.SnapshotsComplete:
		q.bringBack(msg)
	case endQueue:
		q.ending = msg.number
	default:
		unhandled(ctx, q.program.Log)
		return
	}
	q.next(ctx)
	q.reportHeld(ctx)
	q.publish(ctx)
	q.tellEmpty(ctx)
}

// enqueue adds tasks. It keeps one run of a module: a run that waits already serves what has
// changed since (F9). The one in progress does not count, unless the task is only a repetition
// of it. Of the triggers of a hook it makes one task (C41).
func (q *queue) enqueue(msg messages.Enqueue) {
	now, action := time.Now(), metrics.AddLast
	if msg.Head {
		action = metrics.AddFirst
	}
	defer q.program.Metrics.Queues.Acted(q.name, action, now)
	var first []messages.Task
	for _, t := range msg.Tasks {
		t.QueuedAt = now
		if msg.Head {
			first = append(first, q.inPlace(t))
			continue
		}
		if q.isServed(t) || slices.ContainsFunc(q.begun(), func(begun messages.Task) bool { return repeats(t, begun) }) {
			continue
		}
		if at := q.placeOf(t, msg.Tasks); at < len(q.pending) {
			q.pending = slices.Insert(q.pending, at, t)
			continue
		}
		q.pending = q.program.mergeIntoWaiting(q.pending, t)
	}
	if msg.Head {
		q.pending = slices.Concat(first, q.pending)
	}
}

// inPlace drops the tasks that wait and that a task makes needless. It remains the step of a reload that one of them was.
func (q *queue) inPlace(t messages.Task) messages.Task {
	q.pending = slices.DeleteFunc(q.pending, func(waiting messages.Task) bool {
		needless := serves(t, waiting)
		if needless {
			t.Reload = max(t.Reload, waiting.Reload)
		}
		return needless
	})
	return t
}

// isServed reports whether a task that waits makes another one needless. The run that an urgent one needs
// is urgent from then on; that of a group cannot be.
func (q *queue) isServed(t messages.Task) bool {
	i := slices.IndexFunc(q.pending, func(waiting messages.Task) bool {
		_, group := waiting.Work.(messages.RunModules)
		return serves(waiting, t) && !(t.Urgent && group)
	})
	if i >= 0 && t.Urgent {
		q.pending[i].Urgent = true
	}
	return i >= 0
}

// serves reports whether a task makes another one needless: it runs all modules that the
// other would run, or both reload, or one repeats the other.
func serves(t, other messages.Task) bool {
	if _, ok := other.Work.(messages.ReloadModules); ok {
		_, same := t.Work.(messages.ReloadModules)
		return same
	}
	if repeats(other, t) {
		return true
	}
	wanted, run := runs(other), runs(t)
	return len(wanted) > 0 && !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(run, name) })
}

// repeats reports whether the task that is added repeats one that has not ended yet, so
// that they do not pile up: a Synchronization whose hook takes longer than its
// resynchronizationPeriod, or fails (C15), and a purge that fails at each reload (E10).
func repeats(added, other messages.Task) bool {
	switch a := added.Work.(type) {
	case messages.SynchronizeHook:
		o, ok := other.Work.(messages.SynchronizeHook)
		return ok && a.Again && added.Owner == other.Owner && o.Hook == a.Hook && slices.Equal(o.Bindings, a.Bindings)
	case messages.PurgeRelease:
		return other.Work == added.Work
	}
	return false
}

// runs are the modules that a task runs.
func runs(t messages.Task) []string {
	switch w := t.Work.(type) {
	case messages.RunModule:
		return []string{t.Owner}
	case messages.RunModules:
		return w.Names
	}
	return nil
}

func (q *queue) drop(msg messages.DropTasks) {
	defer q.program.Metrics.Queues.Acted(q.name, metrics.Filter, time.Now())
	q.pending = slices.DeleteFunc(q.pending, func(t messages.Task) bool { return t.Reload == msg.Reload })
}

// crowd is how many triggers of one hook are many.
const crowd = 20

// count returns how many triggers wait for hooks, and for which of them many do; mostly for none.
func (q *queue) count() (triggers int, many map[string]int) {
	for _, t := range q.pending {
		w, ok := t.Work.(messages.RunHook)
		if !ok || !carriesTriggers(t) {
			continue
		}
		triggers += w.Carried()
		if w.Carried() > crowd {
			if many == nil {
				many = map[string]int{}
			}
			many[w.Hook] += w.Carried()
		}
	}
	return triggers, many
}

func (q *queue) taskDone(ctx actor.Context, msg messages.TaskDone) {
	q.held = slices.DeleteFunc(q.held, func(h held) bool { return h.ID == msg.ID })
	q.failed = slices.DeleteFunc(q.failed, func(id string) bool { return id == msg.ID })
	q.passedDone(msg.ID)
	if q.current == nil || q.current.ID != msg.ID {
		return
	}
	done, left := *q.current, q.left
	q.left = nil
	q.current = nil
	if left != nil {
		done.Work = *left
		q.keepAside(ctx, done)
	}
}

func (q *queue) next(ctx actor.Context) {
	q.grantTurns(ctx)
	if q.current == nil && len(q.held) == 0 {
		q.mergeAside()
	}
	at := q.nextPending()
	if at < 0 {
		return
	}
	now := time.Now()
	head, rest, more := firstRun(q.pending[at])
	if more {
		rest.ID = q.program.runs.NewTaskID()
		q.pending[at] = rest
	} else {
		q.pending = slices.Delete(q.pending, at, at+1)
	}
	q.current, q.since = &head, now
	q.program.Metrics.Queues.Acted(q.name, metrics.RemoveFirst, now)
	q.program.Metrics.Queues.TaskStarted(head)
	ctx.Request(q.program.owner(head.Owner), messages.ExecuteTask{Task: head})
}

func (q *queue) publish(ctx actor.Context) {
	begun := q.begun()
	s := view.QueueStatus{Length: len(begun) + len(q.pending), Since: q.since, InProgress: len(begun) > 0, Head: begun}
	s.Triggers, s.Crowded = q.count()
	s.Aside = len(q.aside)
	if q.name == messages.MainQueue {
		q.program.mainWaits.Store(len(q.passed) > 0)
	}
	switch {
	case len(q.passed) > 0:
		s.Since = q.passed[0].since
	case q.current == nil && len(q.held) > 0:
		s.Since = q.held[0].since
	}
	s.Head = append(s.Head, q.pending[:min(len(q.pending), shownTasks)]...)
	q.program.Inspector.Publish(ctx.Self(), s)
}

// shownTasks bounds what a queue publishes.
const shownTasks = 100
