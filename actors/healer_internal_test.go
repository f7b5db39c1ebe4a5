package actors

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/helm"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// H13: an object that is gone while its module runs is looked for when the run is over, and healed then; what is back
// is not.
func TestGoneDuringARun(t *testing.T) {
	o := helm.Object{GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "n", Name: "web"}
	synctest.Test(t, func(t *testing.T) {
		p := testProgram(nil)
		p.ReleaseWatch = absentObjects{}
		p.Enabled.Store(&[]string{"web"})
		queued := healQueue(t, p)
		module := spawnActor(t, p, modulePath+"web", actor.ReceiveFunc(func(actor.Context) {}))
		h := newHealer(t.Context(), p)
		pid := spawnActor(t, p, healerPath, h)
		applied := releaseApplied{Module: "web", Objects: []helm.Object{o}}
		gone, back := &objectNews{object: o}, &objectNews{object: o, health: helm.Health{State: view.ObjectCurrent}}
		for _, phase := range []struct {
			name  view.Phase
			news  *objectNews
			heals int
		}{
			{view.Running, gone, 0},
			{view.Ready, nil, 1},
			{view.Running, gone, 1},
			{view.Running, back, 1},
			{view.Ready, nil, 1},
			{view.Suspended, gone, 1},
			{view.Ready, nil, 1},
		} {
			p.Inspector.Publish(module, view.ModuleStatus{Phase: phase.name})
			askActor[struct{}](t, p, pid, applied)
			if phase.news != nil {
				h.note(pid, *phase.news)
			}
			time.Sleep(3 * h.delay)
			synctest.Wait()
			if len(queued) != phase.heals {
				t.Errorf("%v: %d runs were queued, want %d", phase, len(queued), phase.heals)
			}
		}
	})
}

// H13: of a kind that may not be watched, or while the API server is away, nothing is known but the report: it is
// healed, once.
func TestGoneAsFarAsIsKnown(t *testing.T) {
	o := helm.Object{GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "n", Name: "web"}
	synctest.Test(t, func(t *testing.T) {
		p := testProgram(nil)
		p.ReleaseWatch = unknownObjects{}
		p.Enabled.Store(&[]string{"web"})
		queued := healQueue(t, p)
		module := spawnActor(t, p, modulePath+"web", actor.ReceiveFunc(func(actor.Context) {}))
		p.Inspector.Publish(module, view.ModuleStatus{Phase: view.Ready})
		h := newHealer(t.Context(), p)
		pid := spawnActor(t, p, healerPath, h)
		askActor[struct{}](t, p, pid, releaseApplied{Module: "web", Objects: []helm.Object{o}})
		h.note(pid, objectNews{object: o})
		time.Sleep(10 * h.delay)
		synctest.Wait()
		live, _ := p.Inspector.Status(healerPath).(view.HealerStatus)
		if len(queued) != 1 || len(live.Incomplete) > 0 {
			t.Errorf("%d runs were queued, want 1; to heal: %v", len(queued), live.Incomplete)
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
			p := testProgram(nil)
			p.ReleaseWatch = absentObjects{}
			p.Enabled.Store(&[]string{"base", "rules"})
			queued := healQueue(t, p)
			h := newHealer(t.Context(), p)
			pid := spawnActor(t, p, healerPath, h)
			for name, o := range map[string]helm.Object{"base": definition, "rules": rule} {
				module := spawnActor(t, p, modulePath+name, actor.ReceiveFunc(func(actor.Context) {}))
				p.Inspector.Publish(module, view.ModuleStatus{Phase: view.Ready})
				askActor[struct{}](t, p, pid, releaseApplied{Module: name, Objects: []helm.Object{o}})
			}
			h.note(pid, objectNews{object: definition, health: helm.Health{State: view.ObjectTerminating}})
			h.note(pid, objectNews{object: rule})
			time.Sleep(4 * h.delay)
			synctest.Wait()
			if len(queued) > 0 {
				t.Errorf("%d were healed while the definition was being deleted", len(queued))
			}
			want := []string{"base", "rules"}
			if kept {
				want = want[1:]
			} else {
				h.note(pid, objectNews{object: definition})
			}
			time.Sleep(2 * deletionDelays * h.delay)
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
		p := testProgram(nil)
		p.HealDelay, p.ReleaseWatch = time.Millisecond, absentObjects{}
		h := newHealer(t.Context(), p)
		pid := spawnActor(t, p, healerPath, h)
		applied := releaseApplied{Module: "web", Objects: []helm.Object{o}, Ends: map[helm.Object]bool{o: true}}
		if during { // the second run
			askActor[struct{}](t, p, pid, applied)
			h.note(pid, objectNews{object: o})
		}
		askActor[struct{}](t, p, pid, applied)
		if !during {
			h.note(pid, objectNews{object: o})
		}
		handledAll(t, p, pid)
		live, ok := p.Inspector.Status(healerPath).(view.HealerStatus)
		if !ok || len(live.Incomplete) > 0 {
			t.Errorf("gone during the run: %t; to heal: %v", during, live.Incomplete)
		}
		if health := live.Releases["web"]; health != nil {
			t.Errorf("gone during the run: %t; the module waits for what has ended: %+v", during, health)
		}
	}
}

// H13: what is new in a release, and goes before it is known whose it is, is healed.
func TestNewAndGone(t *testing.T) {
	o := helm.Object{GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "n", Name: "web"}
	synctest.Test(t, func(t *testing.T) {
		p := testProgram(nil)
		p.ReleaseWatch = absentObjects{}
		p.Enabled.Store(&[]string{"web"})
		queued := healQueue(t, p)
		module := spawnActor(t, p, modulePath+"web", actor.ReceiveFunc(func(actor.Context) {}))
		p.Inspector.Publish(module, view.ModuleStatus{Phase: view.Ready})
		h := newHealer(t.Context(), p)
		pid := spawnActor(t, p, healerPath, h)
		h.note(pid, objectNews{object: o})
		askActor[struct{}](t, p, pid, releaseApplied{Module: "web", Objects: []helm.Object{o}, Wrote: true})
		time.Sleep(10 * h.delay)
		synctest.Wait()
		if len(queued) != 1 {
			t.Errorf("%d runs were queued, want 1", len(queued))
		}
	})
}

// H13: a module whose objects something else deletes after each heal is healed in pauses.
func TestHealsInPauses(t *testing.T) {
	o := helm.Object{GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "n", Name: "web"}
	synctest.Test(t, func(t *testing.T) {
		p := testProgram(nil)
		p.ReleaseWatch = absentObjects{}
		p.Enabled.Store(&[]string{"web"})
		queued := healQueue(t, p)
		module := spawnActor(t, p, modulePath+"web", actor.ReceiveFunc(func(actor.Context) {}))
		p.Inspector.Publish(module, view.ModuleStatus{Phase: view.Ready})
		h := newHealer(t.Context(), p)
		pid := spawnActor(t, p, healerPath, h)
		askActor[struct{}](t, p, pid, releaseApplied{Module: "web", Objects: []helm.Object{o}, Wrote: true})
		for range 60 {
			h.note(pid, objectNews{object: o})
			time.Sleep(2 * h.delay)
		}
		synctest.Wait()
		if want := healsInARow + 3; len(queued) != want {
			t.Errorf("it was healed %d times in two minutes, want %d", len(queued), want)
		}
	})
}

// H13, H25: what the watches report counts in its order, also when it is handled at once.
func TestNewsInOrder(t *testing.T) {
	p := testProgram(nil)
	p.ReleaseWatch = absentObjects{}
	h := newHealer(t.Context(), p)
	pid := spawnActor(t, p, healerPath, h)
	late := spawnActor(t, p, "late", actor.ReceiveFunc(func(actor.Context) {}))
	o, there := helm.Object{Name: "web"}, helm.Health{State: view.ObjectCurrent}
	askActor[struct{}](t, p, pid, releaseApplied{Module: "web", Objects: []helm.Object{o}})
	for _, news := range []objectNews{{object: o, health: there}, {object: o}, {object: o, health: there}} {
		h.note(late, news)
	}
	p.Send(pid, objectsSeen{})
	handledAll(t, p, pid)
	if live, ok := p.Inspector.Status(healerPath).(view.HealerStatus); !ok || live.Releases["web"].Current != 1 {
		t.Errorf("an object that is back is not current: %v", live.Releases["web"])
	}
}

// queue has the modules whose runs are queued in main.
func healQueue(t *testing.T, p *program) <-chan string {
	t.Helper()
	queued := make(chan string, 9)
	spawnActor(t, p, queuePath+messages.MainQueue, actor.ReceiveFunc(func(ctx actor.Context) {
		if msg, ok := ctx.Message().(messages.Enqueue); ok {
			queued <- msg.Tasks[0].Owner
		}
	}))
	return queued
}

// handled waits until the healer has handled what was sent to it.
func handledAll(t *testing.T, p *program, pid *actor.PID) {
	t.Helper()
	askActor[struct{}](t, p, pid, releaseApplied{Module: "other"})
}

// absentObjects is a cluster without objects.
type absentObjects struct{ ReleaseWatch }

func (absentObjects) Present(helm.Object) bool { return false }

func (absentObjects) Exists(helm.Object) bool { return false }

// unknownObjects are watches that know nothing.
type unknownObjects struct{ absentObjects }

func (unknownObjects) Present(helm.Object) bool { return true }

func (absentObjects) Watch(context.Context, helm.News) func([]helm.Object) {
	return func([]helm.Object) {}
}

// H25: an object may be in progress as long as a Deployment.
func TestProgressDeadline(t *testing.T) {
	h := newHealer(t.Context(), testProgram(nil))
	o := helm.Object{Name: "web"}
	h.learn(o, helm.Health{State: view.ObjectInProgress})
	sum := h.sum([]helm.Object{o})
	deadline := h.states[o].Since.Add(10 * time.Minute)
	if sum.State(deadline.Add(-time.Second)) != view.Progressing || sum.State(deadline) != view.Unhealthy {
		t.Error("the deadline is not ten minutes")
	}
}
