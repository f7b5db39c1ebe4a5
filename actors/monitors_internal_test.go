package actors

import (
	"context"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
)

// unlisted is a watch whose first list does not come.
type unlisted struct{}

func (unlisted) Snapshot() ([]kube.Object, uint64) { return nil, 0 }
func (unlisted) State() kube.WatchState            { return kube.WatchState{Incomplete: true} }
func (unlisted) Stop()                             {}

// C36, P8: the files of a module change while its Synchronization waits for the first list: that ends, and no more.
func TestUnwatchWhileSynchronizationWaits(t *testing.T) {
	var pid *actor.PID
	var p *program
	p = testProgram(func(_ *actor.PID, message any) {
		if _, ok := message.(messages.GetSnapshots); ok { // comes right behind it
			p.Send(pid, messages.Unwatch{Owner: "a"})
		}
	})
	p.World.Watch = func(context.Context, kube.Spec, func(kube.Change), func()) (Watch, error) { return unlisted{}, nil }
	all := &monitors{program: p, log: p.Log, ctx: t.Context(), watches: map[messages.WatchKey]*monitor{}}
	pid = spawnActor(t, p, monitorsPath, all)
	hook := hooks.Hook{Config: &hooks.Config{Kubernetes: make([]hooks.KubernetesBinding, 1)}}
	of := messages.Synchronization{Run: 1, Bindings: []messages.BindingKey{bindingKey(hook, 0)}}
	got := askActor[messages.Snapshots](t, p, pid, messages.GetSnapshots{Owner: "a", Hook: hook, Synchronization: of})
	if got.Err == nil {
		t.Errorf("the answer is %+v", got)
	}
}
