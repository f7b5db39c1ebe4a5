package actors

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/metrics"
	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// newTestProgram is a world without a cluster, for tests of single actors.
func newTestProgram(before func(*actor.PID, any)) *program {
	log := slog.New(slog.DiscardHandler)
	observe := func(receiver *actor.PID, message any, _ bool) func() {
		if before != nil {
			before(receiver, message)
		}
		return func() {}
	}
	return newProgram(
		supervisor.NewSystem(supervisor.Options{Log: log, Observe: observe}),
		World{Services: work.Services{Log: log, Metrics: metrics.New(metrics.DefaultPrefix)}, ConfigMap: noConfigMap{}},
	)
}

func spawned(t *testing.T, p *program, name string, a actor.Actor) *actor.PID {
	t.Helper()
	pid, err := p.Spawn(name, func() actor.Actor { return a })
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func mustAsk[Answer any](t *testing.T, p *program, to *actor.PID, question any) Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	got, err := p.Ask(ctx, to, question)
	if err != nil {
		t.Fatal(err)
	}
	answer, ok := got.(Answer)
	if !ok {
		t.Fatalf("%T was answered with %T", question, got)
	}
	return answer
}

// noConfigMap is a ConfigMap that was never written.
type noConfigMap struct{}

func (noConfigMap) Read(context.Context) (kube.ConfigMap, error) { return kube.ConfigMap{}, nil }
func (noConfigMap) Watch(context.Context, func(kube.ConfigMap))  {}
func (noConfigMap) Write(context.Context, map[string]string, map[string]*string) (kube.ConfigMap, error) {
	return kube.ConfigMap{}, nil
}
func (noConfigMap) RemoveConfirmation(context.Context, string) (kube.ConfigMap, error) {
	return kube.ConfigMap{}, nil
}
func (noConfigMap) NoteWritten(context.Context, string) (kube.ConfigMap, error) {
	return kube.ConfigMap{}, nil
}

// F18: no actor is spawned while the operator stops; nothing would stop it.
func TestNoModulesWhileStopping(t *testing.T) {
	var p *program
	var spawn *actor.Future
	p = newTestProgram(func(root *actor.PID, message any) {
		if _, ok := message.(messages.ShutDown); ok { // the question comes right behind it
			spawn = p.Actors.Root.RequestFuture(root, work.SpawnModules{}, time.Minute)
		}
	})
	b := &boot{tree: &addons.Tree{}, sections: map[string]*values.Section{}}
	root, err := p.Spawn(operatorPath, func() actor.Actor { return newOperator(t.Context(), p, b, true) })
	if err != nil {
		t.Fatal(err)
	}
	p.Send(root, messages.ShutDown{})
	if err := p.Wait(t.Context(), root); err != nil {
		t.Fatal(err)
	}
	got, err := spawn.Result()
	if answer, ok := got.(work.ModulesSpawned); err != nil || !ok || answer.Err == nil {
		t.Errorf("modules were spawned: %v, %v", got, err)
	}
}

// What a standby has answered is not changed by what it hears afterwards: whoever leads
// reads it at the same time.
func TestWarmthIsACopy(t *testing.T) {
	p := newTestProgram(nil)
	m := addons.Module{Name: "a", Key: "a"}
	pid := spawned(t, p, standbyPath, &standby{
		runs: supervisor.NewRuns(p.System, p.Log), program: p, log: p.Log,
		tree: &addons.Tree{Modules: []addons.Module{m}}, flags: map[string]bool{"aEnabled": true},
		hooks: map[string][]hooks.Hook{"a": {}}, cold: map[string]string{}, count: 1,
	})
	before := mustAsk[warmth](t, p, pid, getWarm{})
	p.Send(pid, flagsMoved{})
	if after := mustAsk[warmth](t, p, pid, getWarm{}); len(after.hooks) != 0 || len(before.hooks) != 1 {
		t.Errorf("%d before, %d after the module was switched off; want 1 and 0", len(before.hooks), len(after.hooks))
	}
}

// F10: a reload whose last step ends when the next one was asked for already has not
// converged: the operator is not ready, and the new values are not taken for applied ones.
func TestOvertakenAtTheLastStep(t *testing.T) {
	p := newTestProgram(nil)
	pid := spawned(t, p, convergePath, assembled(context.Background(), p, &catalog{program: p, log: p.Log, tree: &addons.Tree{}}, &reloads{program: p, log: p.Log, number: 1, phase: reloading}))
	p.Send(pid, messages.ConfigChanged{Global: true})
	p.Send(pid, messages.ConvergeFinished{Reload: 1})
	mustAsk[work.Discovery](t, p, pid, work.GetDiscovery{})
	if s, _ := p.Inspector.Status(convergePath).(view.ConvergeStatus); s.Ready || s.Phase != view.ConvergeReloading {
		t.Errorf("it says: %s", s)
	}
}

// H15, M2: the first discovery installs no CRDs of a module under maintenance. When that
// is over before the discovery is, the first run of the module installs them.
func TestThawedDuringTheFirstDiscovery(t *testing.T) {
	p := newTestProgram(nil)
	m := addons.Module{Name: "a", Key: "a"}
	section, err := values.NewSection("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	modulePID := spawned(t, p, modulePath+"a", newModule(p, m, section, nil))
	b := &boot{tree: &addons.Tree{Modules: []addons.Module{m}}}
	b.config.maintenance = map[string]string{"aMaintenance": "NoResourceReconciliation"}
	pid := spawned(t, p, convergePath, newConverge(context.Background(), p, b))
	p.Send(pid, messages.StartUp{})
	p.Send(pid, messages.ConfigChanged{}) // nothing is under maintenance
	mustAsk[work.Discovery](t, p, pid, work.GetDiscovery{})
	if state := mustAsk[work.Handed](t, p, modulePID, work.HandOver{}).Known; state.Maintenance != "" || state.CRDsDue == 0 {
		t.Errorf("the module is in %+v", state)
	}
}

// C23: hooks of a module that was moved to another root have that as their WORKING_DIR.
func TestWorkingDirOfAMovedModule(t *testing.T) {
	m := addons.Module{Name: "a", Key: "a", Dir: "/one/a", Root: "/one"}
	section, err := values.NewSection("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	owner := newModule(newTestProgram(nil), m, section, nil)
	owner.module.Dir, owner.module.Root = "/two/a", "/two"
	if got := owner.moduleJob(messages.Task{}).WorkingDir; got != "/two" {
		t.Errorf("WORKING_DIR is %s", got)
	}
}
