package supervisor_test

import (
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/supervisor"
)

// staged is a parent that stops its children in order, then itself.
type staged struct {
	s        *stage
	stages   supervisor.Stages
	children func(ctx actor.Context, p *staged)
}

func (p *staged) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		p.children(ctx, p)
	case string:
		if p.stages.Stop(ctx) {
			ctx.Stop(ctx.Self())
		}
	case *actor.Terminated:
		if p.stages.Terminated(ctx, msg.Who) {
			p.s.note("all gone")
			ctx.Stop(ctx.Self())
		}
	case call:
		msg.do(ctx)
	}
}

// child takes its time to stop.
func (p *staged) child(ctx actor.Context, name string, takes time.Duration) *actor.PID {
	pid, err := ctx.SpawnNamed(p.s.Props(func() actor.Actor {
		return function(func(c actor.Context) {
			if _, ok := c.Message().(*actor.Stopping); ok {
				p.s.note("%s stops", name)
				time.Sleep(takes)
			}
		})
	}), name)
	if err != nil {
		p.s.t.Error(err)
	}
	return pid
}

// F18: what was added last stops first, and a stage waits for the one after it.
func TestStagesStopInOrder(t *testing.T) {
	onStage(t, func(s *stage) {
		pid := s.spawn("parent", func() actor.Actor {
			return &staged{s: s, children: func(ctx actor.Context, p *staged) {
				p.stages = supervisor.NewStages(4)
				p.stages.Add(0, p.child(ctx, "config", time.Second))
				p.stages.Add(1, p.child(ctx, "dns", 5*time.Second)) // the one after it is empty
				p.stages.Add(3, p.child(ctx, "monitors", 2*time.Second))
				p.stages.Add(1, p.child(ctx, "ingress", 5*time.Second))
			}}
		})
		s.Send(pid, "stop")
		s.advance(time.Second)
		s.expect("0s monitors stops")
		s.advance(time.Second)
		if s.count("2s dns stops") != 1 || s.count("2s ingress stops") != 1 {
			t.Errorf("happened: %q", s.diary)
		}
		s.expect(s.diary...)
		s.advance(time.Minute)
		s.expect("7s config stops", "8s all gone")
	})
}

// A child that went by itself is not waited for; without children there is nothing to do.
func TestStagesForgetWhoIsGone(t *testing.T) {
	onStage(t, func(s *stage) {
		parent := &staged{s: s}
		var early *actor.PID
		parent.children = func(ctx actor.Context, p *staged) {
			early = p.child(ctx, "early", 0)
			p.stages = supervisor.NewStages(1)
			p.stages.Add(0, early)
		}
		pid := s.spawn("parent", func() actor.Actor { return parent })
		s.advance(0)
		s.do(pid, func(ctx actor.Context) { ctx.Stop(early) })
		s.expect("0s early stops")
		s.do(pid, func(ctx actor.Context) {
			if !parent.stages.Stop(ctx) {
				t.Error("children are waited for that are gone")
			}
			if empty := new(supervisor.Stages); !empty.Stop(ctx) {
				t.Error("no stage at all is not done")
			}
		})
	})
}
