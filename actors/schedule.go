package actors

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/hooks"
	"addon-operator/messages"
)

// schedule turns crontabs into tasks: one entry for each distinct crontab, one timer for the entry
// that is next, a task for each binding with the crontab (C13). Ticks before the end of the first
// converge are dropped (C14).
//
// The tasks of one tick are queued in the order of owners and hooks, the same each time.
type schedule struct {
	program *program
	log     *slog.Logger

	open bool // the first converge is over; it stays so
	// owners are the hooks whose schedules are on, by module name or messages.GlobalHooks. They are
	// on from the start-up of the owner until it is switched off.
	owners map[string][]hooks.Hook
	// next is when each crontab fires next; zero: never. Its time zone is that of the crontab, or of the process.
	next  map[string]time.Time
	timer *time.Timer // for the one that is next; nil before the first
}

// entriesDue is sent by the timer. One that was sent just before the timer was stopped does no
// harm: due looks at the clock.
type entriesDue struct{}

// Receive implements actor.Actor.
func (s *schedule) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
	case *actor.Stopping:
		s.disarm()
	case messages.StartSchedules:
		s.owners[msg.Owner] = msg.Hooks
		s.arm(ctx.Self())
	case messages.StopSchedules:
		delete(s.owners, msg.Owner)
		s.arm(ctx.Self())
	case messages.Converged:
		s.open = true
	case entriesDue:
		s.due(ctx)
	case messages.ScheduleFired:
		s.fired(ctx, msg)
	default:
		unhandled(ctx, s.log)
	}
}

// arm makes next match the crontabs of all owners, and sets the timer. A crontab that stays keeps its
// next time: @every would begin again otherwise.
func (s *schedule) arm(self *actor.PID) {
	before, first := s.next, time.Time{}
	s.next = map[string]time.Time{}
	for _, found := range s.owners {
		for _, hook := range found {
			for _, b := range hook.Config.Schedules {
				at, ok := before[b.Crontab]
				if !ok {
					at = b.Parsed.Next(time.Now())
				}
				if s.next[b.Crontab] = at; !at.IsZero() && (first.IsZero() || at.Before(first)) {
					first = at
				}
			}
		}
	}
	s.disarm()
	if !first.IsZero() {
		s.timer = time.AfterFunc(time.Until(first), func() { s.program.Send(self, entriesDue{}) })
	}
}

func (s *schedule) disarm() {
	if s.timer != nil {
		s.timer.Stop()
	}
}

// due fires what is due, in the order of crontabs. What was missed while the process was stopped
// fires once, because the next time is counted from now.
func (s *schedule) due(ctx actor.Context) {
	now := time.Now()
	for _, crontab := range slices.Sorted(maps.Keys(s.next)) {
		if at := s.next[crontab]; !at.IsZero() && !at.After(now) {
			delete(s.next, crontab)
			s.fired(ctx, messages.ScheduleFired{Crontab: crontab})
		}
	}
	s.arm(ctx.Self())
}

// fired queues a task for each binding with a crontab. Tests send ScheduleFired themselves.
func (s *schedule) fired(ctx actor.Context, msg messages.ScheduleFired) {
	if !s.open {
		s.log.Debug("tick dropped: the first converge has not finished", "crontab", msg.Crontab)
		return
	}
	for _, owner := range slices.Sorted(maps.Keys(s.owners)) {
		for _, hook := range s.owners[owner] {
			for i, b := range hook.Config.Schedules {
				if b.Crontab == msg.Crontab {
					s.queueTick(ctx, owner, hook, i)
				}
			}
		}
	}
}

// queueTick makes the task of one binding, with the context in the protocol of its hook (C31, C32).
// A tick for a hook that waits already joins its task; of one schedule a single tick stays (P5).
func (s *schedule) queueTick(ctx actor.Context, owner string, hook hooks.Hook, i int) {
	b := hook.Config.Schedules[i]
	trigger := messages.Trigger{Context: hooks.Context{Binding: b.Name, Type: hooks.TypeSchedule}, Snapshots: b.Snapshots, Binding: hooks.OnSchedule, Index: i}
	switch {
	case hook.Config.Version == hooks.V0:
		trigger.Context.Type = ""
	case b.Group != "":
		trigger.Context.Type, trigger.Context.GroupName = hooks.TypeGroup, b.Group
	}
	t := s.program.NewTask(owner, messages.RunHook{Hook: hook.Name, Binding: hooks.OnSchedule, Triggers: []messages.Trigger{trigger}},
		messages.Cause{Activation: messages.BySchedule, Detail: b.Name + " (" + b.Crontab + ")"})
	t.Queue, t.AllowFailure = b.Queue, b.AllowFailure
	s.program.Enqueue(ctx, false, t)
}
