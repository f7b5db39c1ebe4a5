package server

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// crowd spawns actors that only have a status, below one root.
type crowd struct{ system *supervisor.System }

type member struct{ name string }

func (c crowd) Receive(ctx actor.Context) {
	if m, ok := ctx.Message().(member); ok {
		_, _ = ctx.SpawnNamed(c.system.Props(func() actor.Actor { return c }), m.name) // the benchmark waits for all
	}
}

// BenchmarkLivePageSecond is what one open page with a chosen module costs each second: 500 modules, of which 50 have changed,
// and 1,000 events that wait in queues.
func BenchmarkLivePageSecond(b *testing.B) {
	const modules, queues = 500, 10
	system := supervisor.NewSystem(supervisor.Options{Log: slog.New(slog.DiscardHandler)})
	root, err := system.Spawn("operator", func() actor.Actor { return crowd{system: system} })
	if err != nil {
		b.Fatal(err)
	}
	defer system.Actors.Root.Stop(root)
	name := func(i int) string { return fmt.Sprintf("module/m%d", i) }
	for i := range modules {
		system.Send(root, member{name(i)})
	}
	for i := range queues {
		system.Send(root, member{fmt.Sprintf("queue/q%d", i)})
	}
	for len(system.Inspector.Tree()[0].Children) < modules+queues { // none of them is late for long
		runtime.Gosched()
	}
	publish := func(i, release int) {
		system.Inspector.Publish(system.PID("operator/"+name(i)), view.ModuleStatus{
			Phase: view.Ready, Enabled: true, Order: i, Release: release, LastRun: &view.ModuleRun{Began: time.Now()}, Health: &view.Health{Objects: 3, Current: 3},
		})
	}
	for i := range modules {
		publish(i, 1)
	}
	s := livePages{Source{
		Inspector: system.Inspector, Converge: func() view.ConvergeStatus { return view.ConvergeStatus{Ready: true} },
		History: &History{},
		Ask:     func(context.Context, string, any) (any, error) { return messages.HookList{}, nil },
	}, insider}
	r := httptest.NewRequest(http.MethodGet, "/live?module=m7", http.NoBody)
	shared, to := &parts{}, map[string]string{}
	for n := 0; b.Loop(); n++ {
		for i := range modules / 10 {
			publish((n*50+i)%modules, n+2)
		}
		var tasks []messages.Task
		for i := range 100 {
			tasks = append(tasks, messages.Task{ID: fmt.Sprint(n, i), Owner: "m7", Work: messages.RunModule{}, QueuedAt: time.Now(), Cause: messages.Cause{Activation: messages.ByKubernetes}})
		}
		for i := range queues {
			system.Inspector.Publish(system.PID(fmt.Sprintf("operator/queue/q%d", i)), view.QueueStatus{Length: 100 + n%7, Head: tasks})
		}
		shared.made = time.Time{} // a second has passed
		event, err := s.event(r, shared, to)
		if err != nil {
			b.Fatal(err)
		}
		w := httptest.NewRecorder()
		if err := s.send(w, http.NewResponseController(w), event); err != nil {
			b.Fatal(err)
		}
	}
}
