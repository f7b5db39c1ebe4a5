package monitors

import (
	"fmt"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/kube"
	"addon-operator/messages"
)

// snapshotWaiters is the part of monitors that knows who waits until the snapshots of a hook are
// complete: runs, and Synchronizations that were deferred (C16).
type snapshotWaiters struct {
	program *shared.Program
	watches watches
	runs    []snapshotRequest
	later   []messages.SynchronizeLater // deferred Synchronizations
	looking bool                        // a lookAgain is on its way
}

// snapshotRequest waits until all bindings of its hook are complete.
type snapshotRequest struct {
	from *actor.PID
	msg  messages.GetSnapshots
}

// lookAgain is sent by a timer while runs wait for snapshots: whether a kind is missing
// or forbidden shows only in the state of its watch.
type lookAgain struct{}

// lookEvery is how often the states of watches are looked at while someone waits for them.
const lookEvery = 500 * time.Millisecond

// ask answers a run when all bindings of its hook are complete (C36), or at once if one cannot
// become complete for now.
func (s *snapshotWaiters) ask(ctx actor.Context, msg messages.GetSnapshots) {
	if reason := s.blocked(msg); reason != "" {
		ctx.Respond(s.refusal(msg, reason))
		return
	}
	s.runs = append(s.runs, snapshotRequest{ctx.Sender(), msg})
	s.answer(ctx)
}

// cancel forgets a run that is over.
func (s *snapshotWaiters) cancel(run int64) {
	s.runs = slices.DeleteFunc(s.runs, func(r snapshotRequest) bool { return r.msg.Synchronization.Run == run })
}

// synchronize keeps a Synchronization that was deferred, as one with an equal one that waits.
func (s *snapshotWaiters) synchronize(ctx actor.Context, msg messages.SynchronizeLater) {
	s.later = append(slices.DeleteFunc(s.later, func(l messages.SynchronizeLater) bool {
		same := l.Owner == msg.Owner && l.Work.Hook == msg.Work.Hook && slices.Equal(l.Work.Bindings, msg.Work.Bindings)
		if same {
			msg.Work.Late, msg.Work.Instead = msg.Work.Late || l.Work.Late, msg.Work.Instead || l.Work.Instead
		}
		return same
	}), msg)
	s.queueLater(ctx)
}

// unwatched drops what waits for the snapshots of the hooks of an owner, whose watches are gone.
func (s *snapshotWaiters) unwatched(ctx actor.Context, owner string) {
	s.later = slices.DeleteFunc(s.later, func(l messages.SynchronizeLater) bool { return l.Owner == owner })
	s.serve(ctx)
}

// serve answers and queues what need not wait any longer.
func (s *snapshotWaiters) serve(ctx actor.Context) {
	s.answer(ctx)
	s.queueLater(ctx)
}

// lookAgain serves, and answers the runs whose snapshots cannot become complete for now.
func (s *snapshotWaiters) lookAgain(ctx actor.Context) {
	s.looking = false
	s.runs = slices.DeleteFunc(s.runs, func(r snapshotRequest) bool {
		reason := s.blocked(r.msg)
		if reason != "" {
			ctx.Send(r.from, s.refusal(r.msg, reason))
		}
		return reason != ""
	})
	s.serve(ctx)
}

func (s *snapshotWaiters) refusal(msg messages.GetSnapshots, reason string) messages.Snapshots {
	return messages.Snapshots{Waiting: reason, Resync: !s.watches.filled(msg.Owner, msg.Hook.Name)}
}

// blocked says which binding of a hook cannot become complete for now, and why: its kind is
// missing, or the right to read it, or its snapshot is too large. Empty: the run should wait.
func (s *snapshotWaiters) blocked(msg messages.GetSnapshots) string {
	for i, b := range msg.Hook.Config.Kubernetes {
		mon := s.watches[messages.WatchKey{Owner: msg.Owner, Binding: work.BindingKey(msg.Hook, i)}]
		if mon == nil || mon.complete() {
			continue
		}
		if mon.overflow != "" {
			return fmt.Sprintf("binding %s: %s", b.Name, mon.overflow)
		}
		state := mon.watch.State()
		if state.Phase == kube.Forbidden {
			s.program.Notify(kube.Notice{Warning: true, Reason: "SnapshotForbidden", Message: fmt.Sprintf("hook %s does not run: the operator may not read the objects of binding %s: %s", msg.Hook.Name, b.Name, state.Message)})
			return fmt.Sprintf("binding %s: %s; grant the operator's service account this permission, 'addon-operator rbac generate' prints all permissions that it needs", b.Name, state.Message)
		}
		if state.Phase == kube.WaitingForKind && !mon.isFilled() { // once it was, it is empty: a kind that is gone has no objects
			return fmt.Sprintf("binding %s: %s", b.Name, state.Message)
		}
	}
	return ""
}

// answer gives snapshots to the runs whose hooks have all bindings complete (C36).
func (s *snapshotWaiters) answer(ctx actor.Context) {
	s.runs = slices.DeleteFunc(s.runs, func(r snapshotRequest) bool {
		snapshots, complete := s.watches.snapshots(r.msg)
		if complete {
			for mon := range s.watches.shownBy(r.msg.Owner, r.msg.Synchronization) {
				mon.runBegan(r.msg.Synchronization.Run)
			}
			ctx.Send(r.from, snapshots)
		}
		return complete
	})
	s.lookLater(ctx)
}

// queueLater queues the deferred Synchronizations whose bindings are complete by now.
func (s *snapshotWaiters) queueLater(ctx actor.Context) {
	s.later = slices.DeleteFunc(s.later, func(l messages.SynchronizeLater) bool {
		complete := s.watches.complete(l.Owner, l.Hook.Name)
		if complete {
			t := s.program.NewTask(l.Owner, l.Work, messages.Cause{Activation: messages.BySync, Detail: "deferred"})
			t.Queue = l.Queue
			s.program.Enqueue(ctx, false, t)
		}
		return complete
	})
	s.lookLater(ctx)
}

// lookLater starts the timer of lookAgain if someone waits. The end of a first list notifies by
// itself, so what waits for nothing else needs no timer.
func (s *snapshotWaiters) lookLater(ctx actor.Context) {
	due := len(s.runs) > 0 ||
		slices.ContainsFunc(s.later, func(l messages.SynchronizeLater) bool { return s.watches.filled(l.Owner, l.Hook.Name) })
	if !due || s.looking {
		return
	}
	s.looking = true
	s.program.SendLater(ctx, lookEvery, lookAgain{})
}
