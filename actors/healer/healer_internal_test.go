package healer

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/actors/shared"
	"addon-operator/actors/shared/sharedtest"
	"addon-operator/actors/work"
	"addon-operator/helm"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// H13: an object that is gone while its module runs is looked for when the run is over, and healed then; what is back
// is not.
func TestGoneDuringARun(t *testing.T) {
	o := helm.Object{GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "n", Name: "web"}
	synctest.Test(t, func(t *testing.T) {
		p := sharedtest.NewProgram(nil)
		p.ReleaseWatch = absentObjects{}
		p.Enabled.Store(&[]string{"web"})
		queued := 0
		sharedtest.Spawn(t, p, work.QueuePath+messages.MainQueue, actor.ReceiveFunc(func(ctx actor.Context) {
			if _, ok := ctx.Message().(messages.Enqueue); ok {
				queued++
			}
		}))
		module := sharedtest.Spawn(t, p, work.ModulePath+"web", actor.ReceiveFunc(func(actor.Context) {}))
		pid := sharedtest.Spawn(t, p, work.HealerPath, New(t.Context(), p))
		applied := work.ReleaseApplied{Module: "web", Objects: []helm.Object{o}}
		for _, phase := range []struct {
			name  view.Phase
			news  any
			heals int
		}{
			{view.Running, objectGone{o}, 0},
			{view.Ready, nil, 1},
			{view.Running, objectGone{o}, 1},
			{view.Running, objectHealth{object: o}, 1},
			{view.Ready, nil, 1},
			{view.Suspended, objectGone{o}, 1},
			{view.Ready, nil, 1},
		} {
			p.Inspector.Publish(module, view.ModuleStatus{Phase: phase.name})
			sharedtest.Ask[work.HealthReported](t, p, pid, applied)
			if phase.news != nil {
				p.Send(pid, phase.news)
			}
			time.Sleep(3 * healDelay)
			synctest.Wait()
			if queued != phase.heals {
				t.Errorf("%v: %d runs were queued, want %d", phase, queued, phase.heals)
			}
		}
	})
}

// H13: of a kind that may not be watched, or while the API server is away, nothing is known but the report: it is
// healed, once.
func TestGoneAsFarAsIsKnown(t *testing.T) {
	o := helm.Object{GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "n", Name: "web"}
	synctest.Test(t, func(t *testing.T) {
		p := sharedtest.NewProgram(nil)
		p.ReleaseWatch = unknownObjects{}
		p.Enabled.Store(&[]string{"web"})
		queued := 0
		sharedtest.Spawn(t, p, work.QueuePath+messages.MainQueue, actor.ReceiveFunc(func(ctx actor.Context) {
			if _, ok := ctx.Message().(messages.Enqueue); ok {
				queued++
			}
		}))
		module := sharedtest.Spawn(t, p, work.ModulePath+"web", actor.ReceiveFunc(func(actor.Context) {}))
		p.Inspector.Publish(module, view.ModuleStatus{Phase: view.Ready})
		pid := sharedtest.Spawn(t, p, work.HealerPath, New(t.Context(), p))
		sharedtest.Ask[work.HealthReported](t, p, pid, work.ReleaseApplied{Module: "web", Objects: []helm.Object{o}})
		p.Send(pid, objectGone{o})
		time.Sleep(10 * healDelay)
		synctest.Wait()
		live, _ := p.Inspector.Status(work.HealerPath).(liveHealer)
		if queued != 1 || len(live.status.Incomplete) > 0 {
			t.Errorf("%d runs were queued, want 1; to heal: %v", queued, live.status.Incomplete)
		}
	})
}

// H13: the objects of a kind go before its definition, which may take longer than the healer waits for reports. The
// module that brings the definition is healed first all the same. What finalizers keep holds up nothing for long.
func TestHealsWaitForDeletions(t *testing.T) {
	definition := helm.Object{GVK: schema.GroupVersionKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}, Name: "rules"}
	rule := helm.Object{GVK: schema.GroupVersionKind{Group: "e", Kind: "Rule"}, Namespace: "n", Name: "rule"}
	for _, kept := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := sharedtest.NewProgram(nil)
			p.ReleaseWatch = absentObjects{}
			p.Enabled.Store(&[]string{"base", "rules"})
			queued := make(chan string, 9)
			sharedtest.Spawn(t, p, work.QueuePath+messages.MainQueue, actor.ReceiveFunc(func(ctx actor.Context) {
				if msg, ok := ctx.Message().(messages.Enqueue); ok {
					queued <- msg.Tasks[0].Owner
				}
			}))
			pid := sharedtest.Spawn(t, p, work.HealerPath, New(t.Context(), p))
			for name, o := range map[string]helm.Object{"base": definition, "rules": rule} {
				module := sharedtest.Spawn(t, p, work.ModulePath+name, actor.ReceiveFunc(func(actor.Context) {}))
				p.Inspector.Publish(module, view.ModuleStatus{Phase: view.Ready})
				sharedtest.Ask[work.HealthReported](t, p, pid, work.ReleaseApplied{Module: name, Objects: []helm.Object{o}})
			}
			p.Send(pid, objectHealth{definition, helm.Health{State: view.ObjectTerminating}})
			p.Send(pid, objectGone{rule})
			time.Sleep(4 * healDelay)
			synctest.Wait()
			if len(queued) > 0 {
				t.Errorf("%d were healed while the definition was being deleted", len(queued))
			}
			want := []string{"base", "rules"}
			if kept {
				want = want[1:]
			} else {
				p.Send(pid, objectGone{definition})
			}
			time.Sleep(2 * deletionTime)
			synctest.Wait()
			var got []string
			for len(queued) > 0 {
				got = append(got, <-queued)
			}
			if !slices.Equal(got, want) {
				t.Errorf("kept %t: %v were healed, want %v", kept, got, want)
			}
		})
	}
}

// H13, H25: what ends by itself is not healed, whenever it goes, and has no part in the health of the module.
func TestEnded(t *testing.T) {
	o := helm.Object{GVK: schema.GroupVersionKind{Group: "batch", Kind: "Job"}, Namespace: "n", Name: "migrate"}
	for _, during := range []bool{false, true} {
		p := sharedtest.NewProgram(nil)
		p.PromptReleaseWatch, p.ReleaseWatch = true, absentObjects{}
		healths := make(chan work.HealthChanged, 9)
		module := sharedtest.Spawn(t, p, work.ModulePath+"web", actor.ReceiveFunc(func(ctx actor.Context) {
			switch msg := ctx.Message().(type) {
			case work.HealthChanged:
				healths <- msg
			case string:
				ctx.Respond("yes")
			}
		}))
		pid := sharedtest.Spawn(t, p, work.HealerPath, New(t.Context(), p))
		applied := work.ReleaseApplied{Module: "web", Objects: []helm.Object{o}, Ends: map[helm.Object]bool{o: false}}
		if during { // the second run
			sharedtest.Ask[work.HealthReported](t, p, pid, applied)
			p.Send(pid, objectGone{o})
		}
		sharedtest.Ask[work.HealthReported](t, p, pid, applied)
		if !during {
			p.Send(pid, objectGone{o})
		}
		handled(t, p, pid)
		if live, ok := p.Inspector.Status(work.HealerPath).(liveHealer); !ok || len(live.status.Incomplete) > 0 {
			t.Errorf("gone during the run: %t; to heal: %v", during, live.status.Incomplete)
		}
		handled(t, p, pid) // the report of before is sent by now
		sharedtest.Ask[string](t, p, module, "are these all?")
		var last *view.Health
		for len(healths) > 0 {
			last = (<-healths).Health
		}
		if last != nil {
			t.Errorf("gone during the run: %t; the module waits for what has ended: %+v", during, last)
		}
	}
}

// H13: an object is contested until it has stayed for a while since Helm has applied it, which may be long after the
// heal.
func TestContestedUntilItStays(t *testing.T) {
	o := helm.Object{GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "n", Name: "web"}
	synctest.Test(t, func(t *testing.T) {
		p := sharedtest.NewProgram(nil)
		p.ReleaseWatch = absentObjects{}
		p.Enabled.Store(&[]string{"web"})
		var told atomic.Pointer[[]string]
		module := sharedtest.Spawn(t, p, work.ModulePath+"web", actor.ReceiveFunc(func(ctx actor.Context) {
			if msg, ok := ctx.Message().(work.HealthChanged); ok {
				told.Store(&msg.Contested)
			}
		}))
		p.Inspector.Publish(module, view.ModuleStatus{Phase: view.Ready})
		pid := sharedtest.Spawn(t, p, work.HealerPath, New(t.Context(), p))
		applied := work.ReleaseApplied{Module: "web", Objects: []helm.Object{o}, Wrote: true}
		for range shared.AllowedTurns + 1 {
			sharedtest.Ask[work.HealthReported](t, p, pid, applied)
			p.Send(pid, objectGone{o})
			time.Sleep(2 * healDelay)
		}
		time.Sleep(30 * time.Second) // the run that heals is slow
		sharedtest.Ask[work.HealthReported](t, p, pid, applied)
		for _, wait := range []struct {
			pause     time.Duration
			contested int
		}{{quietPeriod, 1}, {contestedFirstDelay, 0}} {
			time.Sleep(wait.pause)
			synctest.Wait()
			if contested := *told.Load(); len(contested) != wait.contested {
				t.Errorf("after %s it is contested: %q, want %d", wait.pause, contested, wait.contested)
			}
		}
	})
}

// handled waits until the healer has handled what was sent to it.
func handled(t *testing.T, p *shared.Program, pid *actor.PID) {
	t.Helper()
	sharedtest.Ask[work.HealthReported](t, p, pid, work.ReleaseApplied{Module: "other"})
}

// absentObjects is a cluster without objects.
type absentObjects struct{ shared.ReleaseWatch }

func (absentObjects) Present(helm.Object) bool { return false }

func (absentObjects) Exists(helm.Object) bool { return false }

// unknownObjects are watches that know nothing.
type unknownObjects struct{ absentObjects }

func (unknownObjects) Present(helm.Object) bool { return true }

func (absentObjects) WatchedKinds() []kube.WatchedKind { return nil }

func (absentObjects) Watch(context.Context, helm.News) func([]helm.Object) {
	return func([]helm.Object) {}
}

// H25: an object may be in progress as long as a Deployment.
func TestProgressDeadline(t *testing.T) {
	states := objectStates{known: map[helm.Object]assessed{}}
	o := helm.Object{Name: "web"}
	began := time.Now()
	states.learn(objectHealth{object: o, health: helm.Health{State: view.ObjectInProgress}}, began)
	sum := states.of([]helm.Object{o}, began)
	deadline := began.Add(10 * time.Minute)
	if sum.DeadlineSeconds != 600 || sum.Problem(deadline.Add(-time.Second)) != "" || sum.Problem(deadline) == "" {
		t.Errorf("the deadline is %d s, want 600", sum.DeadlineSeconds)
	}
}
