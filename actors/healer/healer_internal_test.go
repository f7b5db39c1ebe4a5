package healer

import (
	"context"
	"slices"
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
		h := newHealer(t.Context(), p)
		pid := sharedtest.Spawn(t, p, work.HealerPath, h)
		applied := work.ReleaseApplied{Module: "web", Objects: []helm.Object{o}}
		for _, phase := range []struct {
			name  view.Phase
			news  any // of o
			heals int
		}{
			{view.Running, objectGone{o}, 0},
			{view.Ready, nil, 1},
			{view.Running, objectGone{o}, 1},
			{view.Running, helm.Health{}, 1},
			{view.Ready, nil, 1},
			{view.Suspended, objectGone{o}, 1},
			{view.Ready, nil, 1},
		} {
			p.Inspector.Publish(module, view.ModuleStatus{Phase: phase.name})
			sharedtest.Ask[struct{}](t, p, pid, applied)
			switch news := phase.news.(type) {
			case objectGone:
				p.Send(pid, news)
			case helm.Health:
				h.note(pid, o, news)
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
		sharedtest.Ask[struct{}](t, p, pid, work.ReleaseApplied{Module: "web", Objects: []helm.Object{o}})
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
			h := newHealer(t.Context(), p)
			pid := sharedtest.Spawn(t, p, work.HealerPath, h)
			for name, o := range map[string]helm.Object{"base": definition, "rules": rule} {
				module := sharedtest.Spawn(t, p, work.ModulePath+name, actor.ReceiveFunc(func(actor.Context) {}))
				p.Inspector.Publish(module, view.ModuleStatus{Phase: view.Ready})
				sharedtest.Ask[struct{}](t, p, pid, work.ReleaseApplied{Module: name, Objects: []helm.Object{o}})
			}
			h.note(pid, definition, helm.Health{State: view.ObjectTerminating})
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
		pid := sharedtest.Spawn(t, p, work.HealerPath, New(t.Context(), p))
		applied := work.ReleaseApplied{Module: "web", Objects: []helm.Object{o}, Ends: map[helm.Object]bool{o: false}}
		if during { // the second run
			sharedtest.Ask[struct{}](t, p, pid, applied)
			p.Send(pid, objectGone{o})
		}
		sharedtest.Ask[struct{}](t, p, pid, applied)
		if !during {
			p.Send(pid, objectGone{o})
		}
		handled(t, p, pid)
		live, ok := p.Inspector.Status(work.HealerPath).(liveHealer)
		if !ok || len(live.status.Incomplete) > 0 {
			t.Errorf("gone during the run: %t; to heal: %v", during, live.status.Incomplete)
		}
		if health := live.shown["web"].Health; health != nil {
			t.Errorf("gone during the run: %t; the module waits for what has ended: %+v", during, health)
		}
	}
}

// H13: what is new in a release, and goes before it is known whose it is, is healed.
func TestNewAndGone(t *testing.T) {
	o := helm.Object{GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "n", Name: "web"}
	synctest.Test(t, func(t *testing.T) {
		p := sharedtest.NewProgram(nil)
		p.ReleaseWatch = absentObjects{}
		p.Enabled.Store(&[]string{"web"})
		queued := make(chan messages.Enqueue, 9)
		sharedtest.Spawn(t, p, work.QueuePath+messages.MainQueue, actor.ReceiveFunc(func(ctx actor.Context) {
			if msg, ok := ctx.Message().(messages.Enqueue); ok {
				queued <- msg
			}
		}))
		module := sharedtest.Spawn(t, p, work.ModulePath+"web", actor.ReceiveFunc(func(actor.Context) {}))
		p.Inspector.Publish(module, view.ModuleStatus{Phase: view.Ready})
		pid := sharedtest.Spawn(t, p, work.HealerPath, New(t.Context(), p))
		p.Send(pid, objectGone{o})
		sharedtest.Ask[struct{}](t, p, pid, work.ReleaseApplied{Module: "web", Objects: []helm.Object{o}, Wrote: true})
		time.Sleep(10 * healDelay)
		synctest.Wait()
		if len(queued) != 1 {
			t.Errorf("%d runs were queued, want 1", len(queued))
		}
	})
}

// H13: an object is contested until it has stayed for a while since Helm has applied it, which may be long after the
// heal.
func TestContestedUntilItStays(t *testing.T) {
	o := helm.Object{GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "n", Name: "web"}
	synctest.Test(t, func(t *testing.T) {
		p := sharedtest.NewProgram(nil)
		p.ReleaseWatch = absentObjects{}
		p.Enabled.Store(&[]string{"web"})
		module := sharedtest.Spawn(t, p, work.ModulePath+"web", actor.ReceiveFunc(func(actor.Context) {}))
		p.Inspector.Publish(module, view.ModuleStatus{Phase: view.Ready})
		pid := sharedtest.Spawn(t, p, work.HealerPath, New(t.Context(), p))
		applied := work.ReleaseApplied{Module: "web", Objects: []helm.Object{o}, Wrote: true}
		for range shared.AllowedTurns + 1 {
			sharedtest.Ask[struct{}](t, p, pid, applied)
			p.Send(pid, objectGone{o})
			time.Sleep(2 * healDelay)
		}
		time.Sleep(30 * time.Second) // the run that heals is slow
		sharedtest.Ask[struct{}](t, p, pid, applied)
		for _, wait := range []struct {
			pause     time.Duration
			contested int
		}{{quietPeriod, 1}, {contestedFirstDelay, 0}} {
			time.Sleep(wait.pause)
			synctest.Wait()
			live, _ := p.Inspector.Status(work.HealerPath).(liveHealer)
			if contested := live.shown["web"].Contested; len(contested) != wait.contested {
				t.Errorf("after %s it is contested: %q, want %d", wait.pause, contested, wait.contested)
			}
		}
	})
}

// handled waits until the healer has handled what was sent to it.
func handled(t *testing.T, p *shared.Program, pid *actor.PID) {
	t.Helper()
	sharedtest.Ask[struct{}](t, p, pid, work.ReleaseApplied{Module: "other"})
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
	states := objectStates{}
	o := helm.Object{Name: "web"}
	began := time.Now()
	states.learn(o, helm.Health{State: view.ObjectInProgress}, began)
	sum := states.of([]helm.Object{o}, began)
	deadline := began.Add(10 * time.Minute)
	if sum.DeadlineSeconds != 600 || sum.Problem(deadline.Add(-time.Second)) != "" || sum.Problem(deadline) == "" {
		t.Errorf("the deadline is %d s, want 600", sum.DeadlineSeconds)
	}
}
