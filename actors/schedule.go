package actors

import (
	"log/slog"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/robfig/cron/v3"

	"addon-operator/hooks"
	"addon-operator/messages"
)

// schedule turns crontabs into messages: one timer for each distinct crontab, a task
// for each binding that has it (C13). Ticks before the end of the first converge are
// dropped (C14).
type schedule struct {
	program *program
	log     *slog.Logger
	state   *scheduleState
}

// scheduleState survives a crash of the actor.
type scheduleState struct {
	cron    *cron.Cron
	running bool
	open    bool // the first converge is over
	owners  map[string][]hooks.Hook
	timers  map[string]cron.EntryID // by crontab
}

func newSchedule(p *program) actor.Producer {
	state := &scheduleState{
		cron:   cron.New(cron.WithLogger(cron.DiscardLogger)),
		owners: map[string][]hooks.Hook{}, timers: map[string]cron.EntryID{},
	}
	return func() actor.Actor { return &schedule{program: p, log: p.Log, state: state} }
}

// Receive implements actor.Actor.
func (s *schedule) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		if !s.state.running {
			s.state.running = true
			s.state.cron.Start()
		}
	case *actor.Stopping:
		s.state.running = false
		s.state.cron.Stop()
	case messages.StartSchedules:
		s.state.owners[msg.Owner] = msg.Hooks
		s.setTimers(ctx.Self())
	case messages.StopSchedules:
		delete(s.state.owners, msg.Owner)
		s.setTimers(ctx.Self())
	case messages.Converged:
		s.state.open = true
	case messages.ScheduleFired:
		s.fired(ctx, msg)
	default:
		unhandled(ctx, s.log)
	}
	s.program.Inspector.Publish(ctx.Self(), messages.ScheduleStatus{Crontabs: len(s.state.timers), Open: s.state.open})
}

// setTimers makes the timers match the crontabs of all owners.
func (s *schedule) setTimers(self *actor.PID) {
	wanted := map[string]cron.Schedule{}
	for _, found := range s.state.owners {
		for _, hook := range found {
			for _, b := range hook.Config.Schedules {
				wanted[b.Crontab] = b.Parsed
			}
		}
	}
	for crontab, id := range s.state.timers {
		if _, ok := wanted[crontab]; !ok {
			s.state.cron.Remove(id)
			delete(s.state.timers, crontab)
		}
	}
	for crontab, parsed := range wanted {
		if _, ok := s.state.timers[crontab]; !ok {
			fired := messages.ScheduleFired{Crontab: crontab}
			s.state.timers[crontab] = s.state.cron.Schedule(parsed, cron.FuncJob(func() { s.program.Send(self, fired) }))
		}
	}
}

func (s *schedule) fired(ctx actor.Context, msg messages.ScheduleFired) {
	if !s.state.open {
		s.log.Debug("tick dropped: the first converge is not over", "crontab", msg.Crontab)
		return
	}
	for _, owner := range slices.Sorted(maps.Keys(s.state.owners)) {
		for _, hook := range s.state.owners[owner] {
			for _, b := range hook.Config.Schedules {
				if b.Crontab == msg.Crontab {
					s.queueTick(ctx, owner, hook, b)
				}
			}
		}
	}
}

func (s *schedule) queueTick(ctx actor.Context, owner string, hook hooks.Hook, b hooks.Schedule) {
	trigger := messages.Trigger{Context: hooks.Context{Binding: b.Name, Type: hooks.TypeSchedule}, Snapshots: b.Snapshots}
	switch {
	case hook.Config.Version == hooks.V0:
		trigger.Context.Type = ""
	case b.Group != "":
		trigger.Context.Type, trigger.Context.GroupName = hooks.TypeGroup, b.Group
	}
	t := s.program.task(owner, messages.RunHook{Hook: hook.Name, Binding: hooks.OnSchedule, Triggers: []messages.Trigger{trigger}},
		messages.Cause{Activation: messages.BySchedule, Detail: b.Name + " (" + b.Crontab + ")"})
	t.Queue, t.AllowFailure = b.Queue, b.AllowFailure
	s.program.enqueue(ctx, false, t)
}
