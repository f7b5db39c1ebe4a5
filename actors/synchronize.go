package actors

import (
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/hooks"
	"addon-operator/messages"
)

// bindingSynchronized notes that a binding needs no further Synchronization run.
func (o *owner) bindingSynchronized(ctx actor.Context, msg messages.BindingSynchronized) {
	if !o.runs.Lives(msg.Task) || o.exchanged(msg.Binding, msg.Config) {
		return // the module was disabled and starts again, or the hook was exchanged
	}
	o.synchronized[msg.Binding] = true
	delete(o.deferred, msg.Binding)
	if msg.Late {
		o.self.reconcile(ctx, messages.Cause{Activation: messages.BySync, Detail: msg.Binding.Hook})
	}
	o.answerAwaiting(ctx)
}

// bindingDeferred notes that a binding is not waited for.
func (o *owner) bindingDeferred(ctx actor.Context, msg messages.BindingDeferred) {
	if !o.runs.Lives(msg.Task) || o.exchanged(msg.Binding, msg.Config) {
		return
	}
	o.deferred[msg.Binding] = true
	o.answerAwaiting(ctx)
}

// awaitSynchronized queues what is missing in named queues and remembers who waits.
func (o *owner) awaitSynchronized(ctx actor.Context, msg messages.AwaitSynchronized) {
	o.awaiting = append(o.awaiting, ctx.Sender())
	o.queueSynchronizations(ctx, msg.Trace)
	o.answerAwaiting(ctx)
}

// queueSynchronizations queues what is missing in named queues.
func (o *owner) queueSynchronizations(ctx actor.Context, trace string) {
	for _, hook := range o.hooks {
		for _, w := range work.Synchronizations(hook) {
			queue := hook.Config.Kubernetes[w.Bindings[0]].Queue
			deferred := o.deferred[work.BindingKey(hook, w.Bindings[0])]
			if queue == hooks.MainQueue || deferred || o.queued[queuedKey(w)] || o.allSynchronized(hook, w) {
				continue
			}
			o.queued[queuedKey(w)] = true
			t := o.program.task(o.name, w, messages.Cause{Activation: messages.BySync})
			t.Queue, t.Trace = queue, trace
			o.program.enqueue(ctx, false, t)
		}
	}
}

func (o *owner) answerAwaiting(ctx actor.Context) {
	for _, hook := range o.hooks {
		for i, b := range hook.Config.Kubernetes {
			key := work.BindingKey(hook, i)
			if b.WaitForSynchronization && b.Queue != hooks.MainQueue && !o.synchronized[key] && !o.deferred[key] {
				return
			}
		}
	}
	for _, pid := range o.awaiting {
		ctx.Send(pid, work.Handed{Known: o.self.known()})
	}
	o.awaiting = nil
}

func (o *owner) allSynchronized(hook hooks.Hook, w messages.SynchronizeHook) bool {
	return !slices.ContainsFunc(w.Bindings, func(i int) bool { return !o.synchronized[work.BindingKey(hook, i)] })
}

// unqueued notes that a Synchronization task has ended, or was dropped.
func (o *owner) unqueued(t messages.Task) {
	if w, ok := t.Work.(messages.SynchronizeHook); ok {
		delete(o.queued, queuedKey(w))
	}
}

func queuedKey(w messages.SynchronizeHook) string { return fmt.Sprint(w.Hook, w.Bindings) }

// needless reports whether a Synchronization has succeeded already, and is no repetition:
// after a flip the same one may have been queued twice.
func (o *owner) needless(w messages.SynchronizeHook) bool {
	hook, err := o.hook(w.Hook)
	if err == nil && slices.ContainsFunc(w.Bindings, func(i int) bool { return i >= len(hook.Config.Kubernetes) }) {
		return true // the hook was exchanged
	}
	return err == nil && !w.Again && o.allSynchronized(hook, w)
}
