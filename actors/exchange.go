package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/hooks"
	"addon-operator/messages"
)

// How hooks are exchanged while their owner goes on (P8). A hook that binds to the same as before stays as it is, with its
// watches and what it has seen. Another one is new: what it had is taken down, and its start-up is due, with the next run of
// its module, or for global hooks at once: onStartup, Synchronization, then events and ticks.

// exchange puts other hooks in place. schedules: those of the hooks tick already.
func (o *owner) exchange(ctx actor.Context, next []hooks.Hook, schedules bool) {
	var now, stay []hooks.Hook
	for _, hook := range next {
		was, err := o.hook(hook.Name)
		if err == nil && was.File == hook.File && was.Config.Equal(hook.Config) {
			now, stay = append(now, was), append(stay, was)
			continue
		}
		now = append(now, hook)
	}
	var leave []string
	for _, hook := range o.hooks {
		if !slices.ContainsFunc(stay, func(h hooks.Hook) bool { return h.Name == hook.Name }) {
			leave = append(leave, hook.Name)
			o.takeDown(ctx, hook)
		}
	}
	o.hooks = now
	for _, hook := range now {
		if !slices.ContainsFunc(stay, func(h hooks.Hook) bool { return h.Name == hook.Name }) {
			o.fresh[hook.Name] = hook.Config
		}
	}
	if len(leave) > 0 {
		ctx.Send(o.program.PID(monitorsPath), messages.Unwatch{Owner: o.name, Hooks: leave})
	}
	if schedules {
		ticking := slices.DeleteFunc(slices.Clone(stay), func(h hooks.Hook) bool { return o.fresh[h.Name] != nil })
		ctx.Send(o.program.PID(schedulePath), messages.StartSchedules{Owner: o.name, Hooks: ticking})
	}
	ctx.Send(o.program.PID(operatorPath), useQueues{o.name, queuesOf(now)})
	o.program.Metrics.Hooks.Loaded(messages.ModuleOf(o.name), now)
	if len(o.awaiting) > 0 {
		o.queueSynchronizations(ctx, "")
		o.answerAwaiting(ctx)
	}
}

// takeDown forgets what is known of a hook, and ends the tasks of it that wait for another attempt.
func (o *owner) takeDown(ctx actor.Context, hook hooks.Hook) {
	delete(o.fresh, hook.Name)
	for i := range hook.Config.Kubernetes {
		delete(o.synchronized, work.BindingKey(hook, i))
		delete(o.deferred, work.BindingKey(hook, i))
	}
	for _, w := range work.Synchronizations(hook) {
		delete(o.queued, queuedKey(w))
	}
	for id, name := range o.hookTasks {
		if _, failing := o.failing[id]; failing && name == hook.Name {
			o.runs.Cancel(ctx, id)
		}
	}
}

// exchanged reports whether a hook is another one than that with the configuration, or is gone.
func (o *owner) exchanged(binding messages.BindingKey, config *hooks.Config) bool {
	hook, err := o.hook(binding.Hook)
	return err != nil || hook.Config != config
}

// superseded reports whether a task is about what a hook did before it was exchanged: its Synchronization shows all of it.
func (o *owner) superseded(t messages.Task) bool {
	w, ok := t.Work.(messages.RunHook)
	return ok && o.fresh[w.Hook] != nil && (w.Binding == hooks.OnKubernetes || w.Binding == hooks.OnSchedule)
}

// startedUp notes that the start-up of hooks is over.
func (o *owner) startedUp(started map[string]*hooks.Config) {
	for name, config := range started {
		if o.fresh[name] == config {
			delete(o.fresh, name)
		}
	}
}
