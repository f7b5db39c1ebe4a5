package healer

import (
	"context"
	"log/slog"
	"strings"
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

// H13: what goes between Helm and the end of a run is healed when the module has no hooks. A hook may have taken
// it away: then it is brought back once, and stays away when that run ends without it, too.
func TestGoneAtTheEndOfARun(t *testing.T) {
	o := helm.Object{GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "n", Name: "web"}
	for _, hooks := range []bool{false, true} {
		p := sharedtest.NewProgram(nil)
		p.PromptReleaseWatch, p.ReleaseWatch = true, absentObjects{}
		p.Enabled.Store(&[]string{"web"})
		queued := make(chan messages.Enqueue, 1)
		sharedtest.Spawn(t, p, work.QueuePath+messages.MainQueue, actor.ReceiveFunc(func(ctx actor.Context) {
			if msg, ok := ctx.Message().(messages.Enqueue); ok {
				queued <- msg
			}
		}))
		sharedtest.Spawn(t, p, work.ModulePath+"web", actor.ReceiveFunc(func(actor.Context) {}))
		pid := sharedtest.Spawn(t, p, work.HealerPath, New(t.Context(), p))
		goes := func() {
			p.Send(pid, work.RunBegan{Module: "web", Absent: []helm.Object{o}})
			sharedtest.Ask[work.HealthReported](t, p, pid, work.ReleaseApplied{Module: "web", Objects: []helm.Object{o}, Back: []helm.Object{o}})
			p.Send(pid, objectGone{o})
			p.Send(pid, work.RunEnded{Module: "web", Hooks: hooks})
		}
		goes()
		select {
		case got := <-queued:
			if len(got.Tasks) != 1 || got.Tasks[0].Owner != "web" {
				t.Errorf("it queued %+v", got)
			}
		case <-time.After(time.Minute):
			t.Fatalf("it is not healed, with hooks: %t", hooks)
		}
		goes()
		if s := sharedtest.Ask[messages.Monitored](t, p, pid, messages.ListMonitored{}); s == nil {
			t.Error("the healer does not answer")
		}
		if live, ok := p.Inspector.Status(work.HealerPath).(liveHealer); !ok || hooks && len(live.status.Incomplete) > 0 {
			t.Errorf("what a hook took away twice is to be healed: %v", live.status.Incomplete)
		}
	}
}

// H13: a report that follows the run of a module with hooks may be a late one of what a hook deleted. A prompt watch has
// no late ones: then another client has deleted the object, again.
func TestGoneAfterARun(t *testing.T) {
	o := helm.Object{GVK: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, Namespace: "n", Name: "web"}
	for _, prompt := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			p := sharedtest.NewProgram(nil)
			p.PromptReleaseWatch = prompt
			sharedtest.Spawn(t, p, work.ModulePath+"web", actor.ReceiveFunc(func(actor.Context) {}))
			pid := sharedtest.Spawn(t, p, work.HealerPath, New(t.Context(), p))
			for range 2 {
				p.Send(pid, work.RunBegan{Module: "web", Absent: []helm.Object{o}})
				sharedtest.Ask[work.HealthReported](t, p, pid, work.ReleaseApplied{Module: "web", Objects: []helm.Object{o}, Back: []helm.Object{o}})
				p.Send(pid, work.RunEnded{Module: "web", Hooks: true})
				p.Send(pid, objectGone{o})
			}
			sharedtest.Ask[messages.Monitored](t, p, pid, messages.ListMonitored{})
			if live, ok := p.Inspector.Status(work.HealerPath).(liveHealer); !ok || len(live.status.Incomplete) > 0 != prompt {
				t.Errorf("with prompt reports: %t; to heal: %v", prompt, live.status.Incomplete)
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
		p.Send(pid, work.RunBegan{Module: "web"})
		if during {
			p.Send(pid, objectGone{o})
		}
		sharedtest.Ask[work.HealthReported](t, p, pid, work.ReleaseApplied{Module: "web", Objects: []helm.Object{o}, Ends: map[helm.Object]bool{o: false}})
		p.Send(pid, work.RunEnded{Module: "web"})
		p.Send(pid, objectGone{o})
		sharedtest.Ask[messages.Monitored](t, p, pid, messages.ListMonitored{})
		if live, ok := p.Inspector.Status(work.HealerPath).(liveHealer); !ok || len(live.status.Incomplete) > 0 {
			t.Errorf("gone during the run: %t; to heal: %v", during, live.status.Incomplete)
		}
		sharedtest.Ask[messages.Monitored](t, p, pid, messages.ListMonitored{}) // the report of before is sent by now
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

// What a run reports is no bug, whatever became of the module meanwhile: it was switched off, and perhaps on again.
func TestPhasesOfARun(t *testing.T) {
	began, applied, ended, off := work.RunBegan{Module: "web"}, work.ReleaseApplied{Module: "web"}, work.RunEnded{Module: "web"}, messages.ModuleGone{Module: "web"}
	for name, reports := range map[string][]any{
		"twice":                  {began, applied, ended, began, applied, ended},
		"without a chart":        {began, ended, began, ended},
		"fails before Helm":      {began, began, applied, ended},
		"fails after Helm":       {began, applied, began, applied, ended},
		"waits, is cancelled":    {began, ended, ended},
		"off during Helm":        {began, off, applied, off},
		"off and on during Helm": {began, off, applied, ended, began, applied, ended},
		"off and on before Helm": {began, off, ended, began, applied, ended},
	} {
		p := sharedtest.NewProgram(nil)
		var log strings.Builder
		p.Log = slog.New(slog.NewTextHandler(&log, nil))
		run := sharedtest.Spawn(t, p, work.ModulePath+"web", actor.ReceiveFunc(func(actor.Context) {}))
		pid := sharedtest.Spawn(t, p, work.HealerPath, New(t.Context(), p))
		for _, report := range reports {
			p.Actors.Root.RequestWithCustomSender(pid, report, run)
		}
		sharedtest.Ask[messages.Monitored](t, p, pid, messages.ListMonitored{})
		if log.Len() > 0 {
			t.Errorf("%s: %s", name, &log)
		}
	}
}

// absentObjects is a cluster without objects.
type absentObjects struct{ shared.ReleaseWatch }

func (absentObjects) Present(helm.Object) bool { return false }

func (absentObjects) WatchedKinds() []kube.WatchedKind { return nil }

func (absentObjects) Watch(context.Context, helm.News) func([]helm.Object) {
	return func([]helm.Object) {}
}

// H25: an object may be in progress as long as a Deployment.
func TestProgressDeadline(t *testing.T) {
	states := newObjectStates()
	o := helm.Object{Name: "web"}
	began := time.Now()
	states.learn(objectHealth{object: o, health: helm.Health{State: view.ObjectInProgress}}, began)
	sum := states.of([]helm.Object{o}, began)
	deadline := began.Add(10 * time.Minute)
	if sum.DeadlineSeconds != 600 || sum.Problem(deadline.Add(-time.Second)) != "" || sum.Problem(deadline) == "" {
		t.Errorf("the deadline is %d s, want 600", sum.DeadlineSeconds)
	}
}
