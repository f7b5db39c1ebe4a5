package actors

import (
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// H6: a chart that renders by chance is counted.
func TestUnstableRenderIsCounted(t *testing.T) {
	section, err := values.NewSection("a", nil)
	if err != nil {
		t.Fatal(err)
	}
	p := testProgram(nil)
	m := newModule(p, addons.Module{Name: "a", Key: "a"}, section)
	cause := messages.By(messages.ByHook, "ConfigMap", messages.Cause{})
	m.tellUnstable(messages.Task{Cause: cause}, helm.Outcome{})
	m.tellUnstable(messages.Task{Cause: cause}, helm.Outcome{Unstable: true})
	families, err := p.Metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != view.MetricsPrefix+"value_loops_total" {
			continue
		}
		if got := f.GetMetric()[0].GetCounter().GetValue(); got != 1 {
			t.Errorf("%s is %v, want one", f.GetName(), got)
		}
		return
	}
	t.Error("an unstable render is not counted")
}

// does is a module that also does what a test sends.
type does struct{ *module }

func (d does) Receive(ctx actor.Context) {
	if do, ok := ctx.Message().(func(actor.Context)); ok {
		do(ctx)
		return
	}
	d.module.Receive(ctx)
}

// I9: a run that ends after its module was removed leaves no series.
func TestLateRunLeavesNoSeries(t *testing.T) {
	section, err := values.NewSection("gone", nil)
	if err != nil {
		t.Fatal(err)
	}
	p := testProgram(nil)
	m := newModule(p, addons.Module{Name: "gone", Key: "gone"}, section)
	m.phase = view.Ready
	m.hooks = []hooks.Hook{{File: hooks.File{Name: "h"}, Config: &hooks.Config{}}}
	pid := spawnActor(t, p, modulePath+"gone", does{m})
	began, forgotten := make(chan struct{}), make(chan struct{})
	p.Send(pid, func(ctx actor.Context) {
		m.Runs.Start(ctx, supervisor.Task{
			ID: "1", Ended: func(actor.Context, bool) {},
			Work: func(*supervisor.Run) (any, error) {
				close(began)
				<-forgotten
				m.program.Metrics.HookEnded("gone", "h", "b", messages.Task{Owner: "gone"}, hooks.Usage{}, nil)
				m.program.Metrics.Reports.Add("gone", "h", []hooks.Metric{{Name: "g", Action: hooks.ActionSet}})
				return nil, nil
			},
		})
	})
	<-began
	p.Send(pid, messages.SetModule{Want: messages.Forgotten})
	p.Send(pid, func(actor.Context) { close(forgotten) })
	for askActor[handed](t, p, pid, handOver{}).Known.Runs > 0 {
		time.Sleep(time.Millisecond)
	}
	own, err := p.Metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	reported, err := p.Metrics.HookRegistry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(own, reported...) {
		for _, series := range f.GetMetric() {
			if text := series.String(); strings.Contains(text, "gone") {
				t.Errorf("%s still has %s", f.GetName(), text)
			}
		}
	}
}
