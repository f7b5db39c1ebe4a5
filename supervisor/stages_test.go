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
		p.stages.Stop(ctx)
	case *actor.Terminated:
		p.stages.Terminated(ctx, msg.Who)
	case *actor.Stopping:
		p.s.note("all gone")
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
				p.stages = supervisor.Stages{
					p.child(ctx, "config", time.Second).Id:     0,
					p.child(ctx, "dns", 5*time.Second).Id:      1, // there is none after it
					p.child(ctx, "monitors", 2*time.Second).Id: 3,
					p.child(ctx, "ingress", 5*time.Second).Id:  1,
				}
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

// When the last child is gone, nothing is left to wait for.
func TestStagesForgetWhoIsGone(t *testing.T) {
	onStage(t, func(s *stage) {
		s.spawn("parent", func() actor.Actor {
			return &staged{s: s, children: func(ctx actor.Context, p *staged) {
				p.stages = supervisor.Stages{"parent/gone": 0}
				p.stages.Terminated(ctx, &actor.PID{Id: "parent/gone"})
			}}
		})
		s.advance(0)
		s.expect("0s all gone")
	})
}
