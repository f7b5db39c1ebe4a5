package modules

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/shared"
	"addon-operator/helm"
	"addon-operator/kube"
	"addon-operator/messages"
)

// delayedRun is a run of a module that waits because it is part of a loop. Any run that begins
// before serves it.
type delayedRun struct {
	program *shared.Program
	name    string // of the module
	log     *slog.Logger
	timer   *time.Timer
}

// runAgain queues a module run that the module's own hooks have caused. One that is
// part of a loop waits first, so that a loop is never a busy one; any run of the module
// that begins meanwhile serves it.
func (d *delayedRun) runAgain(ctx actor.Context, head bool, t messages.Task) {
	delay := shared.LoopDelay(t.Cause)
	if delay == 0 {
		d.program.Enqueue(ctx, head, t)
		return
	}
	d.program.Looping(d.log, d.name, t.Cause, delay)
	d.queue(t, delay)
}

// tellUnstable reports a chart that renders differently from the same inputs (H6).
func (d *delayedRun) tellUnstable(t messages.Task, o helm.Outcome) {
	if !o.Unstable {
		return
	}
	const text = "the chart renders a different manifest each time from the same values, so its release is left as it is"
	d.program.Notify(kube.Notice{Warning: true, Reason: "UnstableRender", Message: fmt.Sprintf("module %s: %s", d.name, text)})
	d.log.Warn("unstable render", "err", text+"; use values, or look up what was generated before, instead of using random values or the time", "revision", o.Revision)
	d.program.Metrics.Converge.Looped(messages.By(messages.ByChance, "", t.Cause))
}

// queue queues a run after a delay, in place of one that waits already.
func (d *delayedRun) queue(t messages.Task, in time.Duration) {
	d.stop()
	d.timer = time.AfterFunc(in, func() { d.program.Enqueue(d.program, false, t) })
}

func (d *delayedRun) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}
