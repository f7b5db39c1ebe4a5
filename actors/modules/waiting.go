package modules

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// toldWait is what was logged of a wait, so that nothing is logged twice: a run that replaces
// another one waits for the same Job.
type toldWait struct {
	about  string // the object, or the module
	since  time.Time
	states []string
}

// runWaits shows what a run waits for, nil for the end of the wait, and lets the queue continue
// meanwhile. While a run waits for another module it holds no objects, so those are healed
// (a.waits).
//
// A Helm hook may wait for a Job that does not finish soon, or never: its Pod finds no node, or no
// image. A run may also wait until another module is ready (H26). The run goes on, but the main
// queue does not stand still with it. With the option isolate the module is parked, like one that
// fails. Otherwise the queue continues with what may be the cure and with what is independent:
// heals, modules that provide what another one lacks, deletes, reloads, global hooks, modules
// before this one, and a newer run of the same one, which replaces it. Runs of modules after it,
// and the end of a reload, wait.
func (o *ownTasks) runWaits(ctx actor.Context, msg work.Waits) {
	a, ok := o.changing[msg.Task]
	if !ok || !o.runs.Lives(msg.Task) {
		return
	}
	forModule := func(w *view.Wait) bool { return w != nil && w.Module != "" }
	if waits := forModule(msg.Wait); waits != forModule(o.waitsFor) {
		a.waits(ctx, waits)
	}
	o.waitsFor = msg.Wait
	if msg.Wait == nil {
		o.setPassed(a, false)
		return
	}
	o.reportWait(a, *msg.Wait)
	if a.parks {
		o.park(a)
		return
	}
	o.setPassed(a, true)
}

// reportWait logs a wait and makes an Event of it: each state of a Pod once, and another module once.
func (o *ownTasks) reportWait(a assignment, w view.Wait) {
	if about := w.Object + w.Module; o.told.about != about || !o.told.since.Equal(w.Since) {
		o.told = toldWait{about: about, since: w.Since}
	}
	if slices.Contains(o.told.states, w.State) {
		return
	}
	o.told.states = append(o.told.states, w.State)
	others := "modules after it wait, too"
	if a.parks {
		others = "other modules continue"
	}
	notice := kube.Notice{Warning: true, Reason: "HelmHookWaits", Message: fmt.Sprintf("%s: %s; %s; %s", a.Task, w, w.Times(), others)}
	if w.Module == "" {
		o.log.Warn("a Helm hook waits", "object", w.Object, "pod", w.Pod, "state", w.State, "message", w.Message, "since", w.Since.Format(time.RFC3339), "until", w.Until.Format(time.RFC3339))
	} else { // in the usual case not for long
		o.log.Info("the run waits for another module", "waitsFor", w.Module, "reason", w.Message)
		notice.Warning, notice.Reason = false, "WaitsForModule"
	}
	o.program.Notify(notice)
}

// park lets the queue continue without a task that has not ended. Ended will not send TaskDone
// again.
func (o *ownTasks) park(a assignment) {
	if !o.parked[a.Task.ID] {
		o.parked[a.Task.ID] = true
		shared.TaskEnded(o.program, a.Task, a.queue)
	}
}

// setPassed sends main that a task waits, or does not any more. It goes to main whatever queue the
// task has: the "queue" of a module in a group is the run that runs the group.
func (o *ownTasks) setPassed(a assignment, waits bool) {
	if !o.parked[a.Task.ID] {
		o.program.Send(o.program.PID(work.QueuePath+messages.MainQueue), messages.LetPass{ID: a.Task.ID, Owner: o.name, Waits: waits})
	}
}

// failedWaiting is called when an attempt has failed: it waits for nothing any more.
func (o *ownTasks) failedWaiting(a assignment) {
	if !a.release {
		return
	}
	o.waitsFor = nil
	o.setPassed(a, false)
}
