package supervisor_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/supervisor"
)

// counter reports when it has seen n messages.
func counter(n int, done chan<- bool) actor.Producer {
	seen := 0
	return func() actor.Actor {
		return function(func(ctx actor.Context) {
			if _, ok := ctx.Message().(string); !ok {
				return
			}
			if seen++; seen == n {
				close(done)
			}
		})
	}
}

// BenchmarkMessage is the price of a message, and what the inspection adds to it.
func BenchmarkMessage(b *testing.B) {
	cases := map[string]func(*supervisor.System, actor.Producer) *actor.PID{
		"plain": func(s *supervisor.System, p actor.Producer) *actor.PID {
			return s.Actors.Root.Spawn(actor.PropsFromProducer(p))
		},
		"inspected": func(s *supervisor.System, p actor.Producer) *actor.PID { return s.Actors.Root.Spawn(s.Props(p)) },
	}
	for name, spawn := range cases {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			system := supervisor.NewSystem(supervisor.Options{Log: quietLog()})
			defer system.Close()
			done := make(chan bool)
			pid := spawn(system, counter(b.N, done))
			b.ResetTimer()
			for range b.N {
				system.Send(pid, "message")
			}
			<-done
		})
	}
}

// BenchmarkTask is a whole task that does nothing: spawn, work, success, end.
func BenchmarkTask(b *testing.B) {
	b.ReportAllocs()
	system := supervisor.NewSystem(supervisor.Options{Log: quietLog()})
	defer system.Close()
	var runs *supervisor.Runs
	pid, err := system.Spawn("owner", func() actor.Actor {
		runs = supervisor.NewRuns(system)
		return &owner{runs}
	})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan bool)
	task := supervisor.Task{
		ID:    "t1",
		Work:  func(*supervisor.Run) (any, error) { return nil, nil },
		Ended: func(_ actor.Context, done bool) { ended <- done },
	}
	for b.Loop() {
		system.Send(pid, call{func(ctx actor.Context) { runs.Start(ctx, task) }})
		if !<-ended {
			b.Fatal("the task has failed")
		}
	}
}

// BenchmarkTree is a dump of a thousand actors.
func BenchmarkTree(b *testing.B) {
	system := supervisor.NewSystem(supervisor.Options{Log: quietLog()})
	defer system.Close()
	for range 1000 {
		system.Actors.Root.Spawn(system.Props(silent))
	}
	for b.Loop() {
		if len(system.Inspector.Nodes()) != 1000 {
			b.Fatal("an actor is missing")
		}
	}
}
