package actors

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/robfig/cron/v3"

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
	owners  map[string][]hooks.Hook
	entries map[string]entry // by crontab
	timer   *time.Timer      // for the next entry; nil before the first
}

// entry is when a crontab fires next. Its time zone is that of the crontab, or of the process.
type entry struct {
	schedule cron.Schedule
	next     time.Time // zero: never
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
		s.setEntries(ctx.Self())
	case messages.StopSchedules:
		delete(s.owners, msg.Owner)
		s.setEntries(ctx.Self())
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

// setEntries makes the entries match the crontabs of all owners. A crontab that stays keeps its
// next time: @every would begin again otherwise.
func (s *schedule) setEntries(self *actor.PID) {
	wanted := map[string]cron.Schedule{}
	for _, found := range s.owners {
		for _, hook := range found {
			for _, b := range hook.Config.Schedules {
				wanted[b.Crontab] = b.Parsed
			}
		}
	}
	maps.DeleteFunc(s.entries, func(crontab string, _ entry) bool { return wanted[crontab] == nil })
	for crontab, parsed := range wanted {
		if _, ok := s.entries[crontab]; !ok {
			s.entries[crontab] = entry{parsed, parsed.Next(time.Now())}
		}
	}
	s.arm(self)
}

// arm sets the timer for the entry that fires next.
func (s *schedule) arm(self *actor.PID) {
	s.disarm()
	var next time.Time
	for _, e := range s.entries {
		if !e.next.IsZero() && (next.IsZero() || e.next.Before(next)) {
			next = e.next
		}
	}
	if !next.IsZero() {
		s.timer = time.AfterFunc(time.Until(next), func() { s.program.Send(self, entriesDue{}) })
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
	for _, crontab := range slices.Sorted(maps.Keys(s.entries)) {
		e := s.entries[crontab]
		if e.next.IsZero() || e.next.After(now) {
			continue
		}
		s.entries[crontab] = entry{e.schedule, e.schedule.Next(now)}
		s.fired(ctx, messages.ScheduleFired{Crontab: crontab})
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
