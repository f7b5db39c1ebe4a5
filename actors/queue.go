package actors

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// queue is a FIFO of tasks (F1): a line, and a head that its owner executes. A head that fails stays the head while
// its owner retries it, so the order holds without further work (F6). It leaves in three ways:
//
//	done          TaskDone: nothing of it runs any more, or it goes on outside of the queue (isolate)
//	replaced      a reload waits, which does again what the failing head does (F10)
//	held          a reload waits, and the failing head is an event or a tick: it is tried again after the reload (F6)
type queue struct {
	program *program
	name    string
	line    []messages.Task
	head    *head // nil: nothing is in progress
}

// head is the task that has begun and is not done.
type head struct {
	messages.Task
	since  time.Time
	failed bool // an attempt has; the next one may be in progress
	leaves bool // its owner was told to make no further attempt
}

// Receive implements actor.Actor.
func (q *queue) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
	case messages.Enqueue:
		q.enqueue(msg)
	case messages.TaskFailed:
		if q.head != nil && q.head.ID == msg.ID {
			q.head.failed = true
			if _, group := q.head.Work.(messages.RunModules); group {
				q.head.leaves = false // a module that has begun since has not received EndAttempts
			}
		}
	case messages.TaskDone:
		q.taskDone(msg)
	default:
		unhandled(ctx, q.program.Log)
		return
	}
	// Every message may have freed the queue, or have brought what the head makes way for. So after each message the
	// queue begins what it can, and then publishes what it has become.
	q.makeWay(ctx)
	q.next(ctx)
	q.publish(ctx)
}

func (q *queue) enqueue(msg messages.Enqueue) {
	action := "AddLast"
	if msg.Head {
		action = "AddFirst"
	}
	for i, t := range msg.Tasks {
		t.QueuedAt = time.Now()
		q.add(t, msg.Head, i)
		q.took(action, t.QueuedAt)
	}
}

// took notes how long an action took, by the names of older operators (I2).
func (q *queue) took(action string, began time.Time) {
	q.program.Metrics.actions.WithLabelValues(q.name, action).Observe(seconds(began))
}

// taskDone ends the head, or puts it back into the line, behind the reload that it makes way for.
func (q *queue) taskDone(msg messages.TaskDone) {
	if q.head == nil || q.head.ID != msg.ID {
		return
	}
	if msg.Held {
		at := 1 + slices.IndexFunc(q.line, isReload)
		q.head.Task.Held = true
		q.line = slices.Insert(q.line, at, q.head.Task)
	}
	q.head = nil
}

// makeWay has the owner of a failing head end it or hold it, if a task waits that comes first (F6, F10). An attempt in
// progress ends first.
func (q *queue) makeWay(ctx actor.Context) {
	if q.head == nil || !q.head.failed || q.head.leaves {
		return
	}
	i := slices.IndexFunc(q.line, func(t messages.Task) bool { return givesWay(q.head.Task, t) })
	if i < 0 {
		return
	}
	first := q.line[i]
	q.line = slices.Delete(q.line, i, i+1)
	if isReload(first) {
		q.addReload(first, true)
	} else { // a discovery: the run follows it, so that no other module passes
		again := q.head.Task
		again.ID, again.Cause = q.program.Runs.NewID(), first.Cause
		q.line = slices.Insert(q.line, 0, first, again)
	}
	q.head.leaves = true
	hold := isReload(first) && isHeld(q.head.Task)
	ctx.Send(q.program.Owner(q.head.Owner), messages.EndAttempts{ID: q.head.ID, Hold: hold})
}

func isReload(t messages.Task) bool {
	_, reload := t.Work.(messages.ReloadModules)
	return reload
}

// givesWay reports whether a failing task gives way to one that waits: to a reload, which does again all that modules
// do, and begins before what it does not replace; the run of a module to the discovery that the module runs after.
func givesWay(failing, to messages.Task) bool {
	switch w := to.Work.(type) {
	case messages.ReloadModules:
		return ofReload(failing) || isHeld(failing)
	case messages.DiscoverModules:
		_, one := failing.Work.(messages.RunModule)
		return one && slices.Contains(w.Modules, failing.Owner)
	}
	return false
}

// isHeld reports whether a failing task is tried again after a reload: an event, or a tick, or a Synchronization that
// was deferred or is repeated. What global hooks do at the start is never passed: the discovery needs what they set.
func isHeld(failing messages.Task) bool {
	_, synchronizes := failing.Work.(messages.SynchronizeHook)
	return carriesTriggers(failing) || synchronizes && messages.ModuleOf(failing.Owner) != ""
}

// next begins the first task, if none is in progress. A v0 hook runs once for each trigger, so the rest of its task
// keeps the place in the line (C20).
func (q *queue) next(ctx actor.Context) {
	if q.head != nil || len(q.line) == 0 {
		return
	}
	now := time.Now()
	first, rest, more := firstRun(q.line[0])
	if more {
		rest.ID = q.program.Runs.NewID()
		q.line[0] = rest
	} else {
		q.line = slices.Delete(q.line, 0, 1)
	}
	q.head = &head{Task: first, since: now}
	q.took("RemoveFirst", now)
	q.program.Metrics.TaskStarted(first)
	ctx.Request(q.program.Owner(first.Owner), messages.ExecuteTask{Task: first})
}

// crowd is the number of triggers of one task above which the status names its hook.
const crowd = 20

// publish shows the queue on debug pages and to metrics.
func (q *queue) publish(ctx actor.Context) {
	s := view.QueueStatus{Length: len(q.line), Crowded: map[string]int{}}
	if q.head != nil {
		s.Length++
		s.InProgress, s.Since, s.Head = true, q.head.since, []messages.Task{q.head.Task}
	}
	for _, t := range q.line {
		w, hook := t.Work.(messages.RunHook)
		if carriesTriggers(t) {
			s.Triggers += len(w.Triggers)
			if len(w.Triggers) > crowd {
				s.Crowded[w.Hook] += len(w.Triggers)
			}
		}
		if !hook || len(s.Head) < view.ShownTasks {
			s.Head = append(s.Head, t)
		}
	}
	q.program.Inspector.Publish(ctx.Self(), s)
}

// The line of a queue are its tasks that have not begun, in order. What follows decides what makes what needless (F9,
// C15); what is above only begins and ends tasks.

// add adds a task at the end, or as the one with this index. Of the triggers of a hook it makes one task (C41), of the
// runs of a module one run: a run that waits already serves what has changed since (F9). The head does not count.
func (q *queue) add(t messages.Task, first bool, index int) {
	if isReload(t) {
		q.addReload(t, first)
		return
	}
	if first { // the continuation of a task that has just ended (F5): it takes the place of what waits
		t = q.inPlaceOf(t, func(waiting messages.Task) bool { return serves(t, waiting) })
		q.line = slices.Insert(q.line, min(index, len(q.line)), t)
		return
	}
	if i := slices.IndexFunc(q.line, func(waiting messages.Task) bool { return serves(waiting, t) }); i >= 0 {
		q.line[i] = q.line[i].Instead(t)
		return
	}
	if _, ok := t.Work.(messages.DiscoverModules); ok { // the modules run after it
		t = q.inPlaceOf(t, func(waiting messages.Task) bool { return waiting.Reload == 0 && serves(t, waiting) })
	}
	q.line = q.program.MergeIntoWaiting(q.line, t)
}

// addReload adds a reload, which runs all modules: at the end, in place of all other work of modules; or first, in
// place of the reload in progress, too (F10).
func (q *queue) addReload(t messages.Task, first bool) {
	t = q.inPlaceOf(t, func(waiting messages.Task) bool {
		return isReload(waiting) || ofReload(waiting) && (first || waiting.Reload == 0)
	})
	t.Reload = 0 // it is no step of that one
	at := len(q.line)
	if first {
		at = 0
	}
	q.line = slices.Insert(q.line, at, t)
}

// ofReload reports whether a reload does the work of a task, or is ended with it.
func ofReload(t messages.Task) bool {
	switch w := t.Work.(type) {
	case messages.RunModule, messages.RunModules, messages.DeleteModule, messages.PurgeRelease, messages.FinishReload,
		messages.ReloadModules, messages.DiscoverModules: // a reload that has begun is its discovery
		return true
	case messages.RunHook:
		return w.Binding == hooks.BeforeAll || w.Binding == hooks.AfterAll
	}
	return false
}

// inPlaceOf removes waiting tasks, and returns t with their causes. If one of them was a step of a reload, the new
// task becomes that step: otherwise the reload would wait for a task that no longer exists.
func (q *queue) inPlaceOf(t messages.Task, which func(messages.Task) bool) messages.Task {
	q.line = slices.DeleteFunc(q.line, func(waiting messages.Task) bool {
		needless := which(waiting)
		if needless {
			t.Reload = max(t.Reload, waiting.Reload)
			t = t.Instead(waiting)
		}
		return needless
	})
	return t
}

// serves reports whether a task makes another one needless: it runs all modules that the other would run, or repeats
// it.
func serves(t, other messages.Task) bool {
	if Repeats(other, t) {
		return true
	}
	_, asks := t.Work.(messages.DiscoverModules)
	if _, asked := other.Work.(messages.DiscoverModules); asked && !asks && !isReload(t) {
		return false // a run asks no script
	}
	wanted, run := runs(other), runs(t)
	return len(wanted) > 0 && (isReload(t) || !slices.ContainsFunc(wanted, func(name string) bool { return !slices.Contains(run, name) }))
}

// runs are the modules that a task runs, or that run after it.
func runs(t messages.Task) []string {
	switch w := t.Work.(type) {
	case messages.RunModule:
		return []string{t.Owner}
	case messages.RunModules:
		return w.Names
	case messages.DiscoverModules:
		return w.Modules
	}
	return nil
}

// firstRun is what one run of a hook serves of a waiting task. In protocol v0 each trigger has
// a run of its own (C20); rest goes on waiting then.
func firstRun(t messages.Task) (now, rest messages.Task, more bool) {
	w, _ := t.Work.(messages.RunHook)
	if !carriesTriggers(t) || len(w.Triggers) < 2 || w.Triggers[0].Context.Type != "" {
		return t, messages.Task{}, false
	}
	now, rest = t, t
	later := w
	w.Triggers, later.Triggers = w.Triggers[:1:1], slices.Clip(w.Triggers[1:])
	later.Binding = later.Triggers[0].Binding
	now.Work, rest.Work = w, later
	return now, rest, true
}

// These limits bound what waits for one hook. It is one task, which later triggers join in order
// (C41), and it grows with what tenants do while the hook is slow or fails. Beyond the limits the
// events of a binding become one Synchronization, which shows all objects as they are then.
const (
	// maxTriggers counts triggers; maxWaiting is bytes of the objects and filter results in them.
	maxTriggers = 1000
	maxWaiting  = 8 << 20
)

// carriesTriggers reports whether a task runs a hook for events or ticks, to which others can be added.
func carriesTriggers(t messages.Task) bool {
	w, ok := t.Work.(messages.RunHook)
	return ok && (w.Binding == hooks.OnSchedule || w.Binding == hooks.OnKubernetes)
}

// mergeable reports whether two tasks can be one: they are for the same hook of the same owner,
// whatever its file is called, and have the same allowFailure (C43). One that is held may have run its hook already.
func mergeable(a, b messages.Task) bool {
	same := a.Owner == b.Owner && a.Hook() == b.Hook() && a.AllowFailure == b.AllowFailure
	return same && carriesTriggers(a) && carriesTriggers(b) && !a.Held && !b.Held
}

// MergeIntoWaiting adds a task to those that wait, or adds its triggers to a waiting task of the
// same hook, which keeps its place. It returns the new list; the waiting tasks themselves may be
// changed, but never a message that another actor knows.
func (p *program) MergeIntoWaiting(waiting []messages.Task, t messages.Task) []messages.Task {
	w, _ := t.Work.(messages.RunHook)
	i := slices.IndexFunc(waiting, func(other messages.Task) bool { return mergeable(other, t) })
	if i < 0 {
		return append(waiting, t)
	}
	all, _ := waiting[i].Work.(messages.RunHook)
	for _, trigger := range w.Triggers {
		all = withTrigger(all, trigger)
	}
	bytes := 0
	for _, trigger := range all.Triggers {
		bytes += held(trigger)
	}
	if len(all.Triggers) > maxTriggers || bytes > maxWaiting {
		all = p.Runs.relieved(waiting[i], all)
	}
	waiting[i].Work = all
	return waiting
}

// held is what a trigger holds in memory while it waits, in bytes. Snapshots are not among it: they
// are taken when the hook runs.
func held(t messages.Trigger) int { return len(t.Context.Object) + len(t.Context.FilterResult) }

// relieved is w with less: a Synchronization in place of the events of each binding that has several, which shows all
// objects as they are when the hook runs, and of each group the last trigger, which says as much as all of them (C42).
// Protocol v0 has no Synchronization: the older half goes. A single event and ticks stay, so there may still be too
// much. What was dropped is reported (P5). Actors and runs call it; messages share triggers, so it copies.
func (s *Shared) relieved(task messages.Task, w messages.RunHook) messages.RunHook {
	events, last, shown := map[int]int{}, map[string]int{}, map[int]bool{}
	for i, t := range w.Triggers {
		if last[t.Context.GroupName] = i; isEvent(t) {
			events[t.Index]++
		}
	}
	var kept []messages.Trigger
	for i, t := range w.Triggers {
		switch {
		case isEvent(t) && events[t.Index] > 1:
			if !shown[t.Index] {
				shown[t.Index] = true
				t.Context = hooks.Context{Binding: t.Context.Binding, Type: hooks.TypeSynchronization}
				kept = append(kept, t)
			}
		case t.Context.Type == hooks.TypeGroup && last[t.Context.GroupName] != i:
		case t.Context.Resource != nil && i < len(w.Triggers)/2:
		default:
			kept = append(kept, t)
		}
	}
	if lost := len(w.Triggers) - len(kept); lost > 0 {
		s.eventsLost(task.Owner, w.Hook, task.Queue, lost)
	}
	w.Triggers = kept
	return w
}

// eventsLost reports that events which wait for a hook were too many (P5).
func (s *Shared) eventsLost(owner, hook, queue string, n int) {
	const what = "too many events wait for a hook: Synchronizations replace them; in protocol v0 the oldest are lost"
	s.Metrics.Overflows.WithLabelValues(queue, hook).Inc()
	s.Log.Warn(what, "owner", owner, "hook", hook, "queue", queue, "events", n)
	s.notify(kube.Notice{Warning: true, Reason: "HookOverflow", Message: fmt.Sprintf("hook %s, queue %s: %s", hook, queue, what)})
}

// isEvent reports whether a trigger is a change for which a Synchronization can stand. Events of a
// group are none, because the last of them says as much; those of protocol v0 have no type.
func isEvent(t messages.Trigger) bool { return t.Context.Type == hooks.TypeEvent }

// withTrigger adds a trigger, unless something that waits already stands for it.
func withTrigger(w messages.RunHook, t messages.Trigger) messages.RunHook {
	same := func(o messages.Trigger) bool { return o.Binding == t.Binding && o.Index == t.Index }
	last := len(w.Triggers) - 1
	switch {
	case t.Binding == hooks.OnSchedule && slices.ContainsFunc(w.Triggers, same): // the ticks of one schedule are one
		return w
	case t.Context.Type == hooks.TypeGroup && last >= 0 && w.Triggers[last].Context.Type == hooks.TypeGroup && same(w.Triggers[last]): // C42
		return w
	case isEvent(t) && slices.ContainsFunc(w.Triggers, func(o messages.Trigger) bool { return same(o) && o.Context.Type == hooks.TypeSynchronization }):
		return w // the Synchronization has not begun: it will show the object as it is now, or newer
	}
	w.Triggers = append(slices.Clip(w.Triggers), t) // a copy: others know this message
	return w
}

// Repeats reports whether a task repeats another one that waits, so that they do not pile up: a Synchronization whose
// hook fails (C15), or that several runs of a module wait for.
func Repeats(added, waiting messages.Task) bool {
	a, sync := added.Work.(messages.SynchronizeHook)
	w, same := waiting.Work.(messages.SynchronizeHook)
	same = sync && same && added.Owner == waiting.Owner && a.Hook == w.Hook && slices.Equal(a.Bindings, w.Bindings)
	return same && (a.Again || !w.Again) && !waiting.Held
}

// allowedTurns is how often the same cause may occur in a chain before the chain counts as a loop:
// values that settle do so within a turn or two.
const allowedTurns = 3

// turns counts how often the last link of a chain stands in it.
func turns(c messages.Cause) int {
	n := 0
	for _, link := range c.Chain() {
		if link.Activation == c.Activation && link.Detail == c.Detail {
			n++
		}
	}
	return n
}

// loopDelay is how long a task must wait whose cause is part of a loop: 5 s, 10 s,
// 20 s, 30 s, 30 s …; 0 when it does not.
func loopDelay(c messages.Cause) time.Duration { return slowedDown(turns(c), 30*time.Second) }

// slowedDown is the delay of what was done a number of times: none for allowedTurns, then 5 s,
// and twice as long each time, up to longest.
func slowedDown(times int, longest time.Duration) time.Duration {
	if times <= allowedTurns {
		return 0
	}
	return min(5*time.Second<<min(times-allowedTurns-1, 10), longest)
}

// Looping counts and reports a turn of a loop that is slowed down. With the attribute err, repetitions are logged at
// growing intervals.
func (p *program) Looping(log *slog.Logger, c messages.Cause, in time.Duration) {
	p.Metrics.Loops.WithLabelValues(activation(c)).Inc()
	p.Notify(kube.Notice{Warning: true, Reason: "ValueLoop", Message: "Hooks run in a loop and are slowed down; one of them makes a change in each run: " + c.String()})
	log.Warn("hooks run in a loop: the following runs are slowed down; fix the hook that makes a change in each run", "in", in, "err", chainText(c))
}

// chainText shows the latest links of a chain.
func chainText(c messages.Cause) string {
	var links []string
	for _, link := range c.Chain() {
		links = append(links, link.String())
	}
	return strings.Join(links[:min(6, len(links))], " ← ")
}
