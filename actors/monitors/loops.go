package monitors

import (
	"iter"
	"maps"
	"strings"
	"time"

	"addon-operator/actors/shared"
	"addon-operator/messages"
)

// link is an event as a part of a chain of causes.
type link struct {
	cause messages.Cause
	// over is how many turns too many the loop has that it is a part of; 0 for none.
	over int
	// certain: it may be reported. Otherwise it is a suspicion.
	certain bool
}

// objectID names an object among those of a binding.
type objectID struct{ namespace, name string }

// pace is how far a loop through an object has been slowed down. It is kept when a person changes
// something meanwhile, although that begins a new chain of causes: the loop continues.
type pace struct {
	over  int
	until time.Time
}

// hookKey names a hook of an owner.
type hookKey struct{ owner, hook string }

// hookWindow is when events may come of what a hook writes by itself.
type hookWindow struct {
	running map[int64]bool
	ended   time.Time
}

// echoDelay is how late the event may come of what a hook has written at its end.
const echoDelay = shared.NewsDelay

func (w *hookWindow) open(now time.Time) bool {
	return w != nil && (len(w.running) > 0 || !w.ended.IsZero() && now.Sub(w.ended) < echoDelay)
}

// echo counts runs of a hook that were followed by an event of an object.
type echo struct {
	turns        int
	seen, before int  // events since the last run began, and in the run before it
	served       bool // the last run was for events
	cause        messages.Cause
}

// echoTurns is how many turns may be chance, because another client may write the object.
const echoTurns = 5

// loops finds what has led to an event, and whether that is part of a loop.
//
// Of what Helm and object patches write the cause is known (writes.go). What a hook writes by
// itself, with kubectl, shows only in a pattern: each run of the hook is followed at once by an
// event of the same object, and that leads to the next run. Other clients may write the object just
// then, again and again; so an event at any other time, or more events than in the run before, ends
// the suspicion. A suspicion is no loop yet: the hook waits once. Only if no other client writes
// the object during that time, and the next run is followed by the event again, it is reported as
// one.
type loops struct {
	writes writes
	runs   map[hookKey]*hookWindow // of processes of hooks that run, or ended lately
}

// linkOf finds what has led to an event.
func (l *loops) linkOf(mon *monitor, msg objectChanged) link {
	detail := describeEvent(mon, msg)
	object := objectID{msg.Namespace, msg.Name}
	name := messages.ObjectName{Kind: strings.ToLower(kindOf(mon)), Namespace: msg.Namespace, Name: msg.Name}
	if parent, ok := l.writes.causeOf(name, msg); ok {
		cause := messages.By(messages.ByKubernetes, detail, parent)
		return link{cause, mon.pace(object, max(shared.Turns(cause), shared.Turns(parent))-shared.AllowedTurns), true}
	}
	if e := l.echoOf(mon, msg, object); e != nil && e.turns > echoTurns {
		if e.cause.Activation == "" {
			e.cause = messages.Cause{Activation: messages.ByKubernetes, Detail: detail}
		}
		e.cause = messages.By(messages.ByKubernetes, detail, messages.By(messages.ByHook, mon.hook.Name+" writes the object that it watches", e.cause))
		return link{e.cause, e.turns - echoTurns, e.turns > echoTurns+1}
	}
	return link{cause: messages.Cause{Activation: messages.ByKubernetes, Detail: detail}}
}

// pace notes how many turns too many a loop has, and returns at least one more than at its last
// event.
func (mon *monitor) pace(object objectID, over int) int {
	now := time.Now()
	if known, ok := mon.paces[object]; ok && now.Before(known.until) {
		over = max(over, known.over+1)
	}
	if over <= 0 {
		return 0
	}
	maps.DeleteFunc(mon.paces, func(_ objectID, p pace) bool { return !now.Before(p.until) })
	mon.paces[object] = pace{over, now.Add(shared.DelayAfter(over) + writeCounts)}
	return over
}

// echoOf counts an event that comes while its hook runs, or right behind that; nil for others.
func (l *loops) echoOf(mon *monitor, msg objectChanged, object objectID) *echo {
	e := mon.echoes[object]
	if !l.runs[hookKey{msg.Watch.Owner, mon.hook.Name}].open(time.Now()) {
		delete(mon.echoes, object)
		return nil
	}
	if e == nil {
		e = &echo{turns: 1}
		mon.echoes[object] = e
	} else if e.seen == 0 && e.served {
		e.turns++
	}
	if e.seen++; e.before > 0 && e.seen > e.before {
		delete(mon.echoes, object)
		return nil
	}
	return e
}

// began ends the count for the run of a hook before this one. mons are the monitors of the hook.
func (l *loops) began(msg messages.HookBegan, mons iter.Seq[*monitor]) {
	key := hookKey{msg.Owner, msg.Hook}
	w := l.runs[key]
	if w == nil {
		w = &hookWindow{running: map[int64]bool{}}
		l.runs[key] = w
	}
	for mon := range mons {
		maps.DeleteFunc(mon.echoes, func(_ objectID, e *echo) bool { return e.seen == 0 && e.served })
		for _, e := range mon.echoes {
			if e.seen > 0 {
				e.before, e.seen = e.seen, 0
			}
			e.served = msg.ByEvents
		}
	}
	w.running[msg.Run] = true
}

func (l *loops) ended(msg messages.HookEnded) {
	if w := l.runs[hookKey{msg.Owner, msg.Hook}]; w != nil {
		delete(w.running, msg.Run)
		w.ended = time.Now()
	}
}

// forget forgets the hooks of an owner.
func (l *loops) forget(owner string) {
	maps.DeleteFunc(l.runs, func(key hookKey, _ *hookWindow) bool { return key.owner == owner })
}
