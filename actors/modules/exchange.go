package modules

import (
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/hooks"
	"addon-operator/messages"
)

// exchange replaces the hooks of an owner that keeps running (P8); schedules: their schedules
// tick already.
//
// A hook with the same configuration stays as it is, with its watches and their snapshots. Of
// another version of the same file, bindings that are equal at the same index stay, too; the others
// are removed. The start-up of what is new is due with the next run of the module, or for global
// hooks at once: onStartup, if the file had none before, Synchronization of the new bindings, then
// events and ticks. While a run of the owner is in progress, which may use the old watches, no
// binding of a changed hook stays.
func (h *ownHooks) exchange(ctx actor.Context, next []hooks.Hook, schedules bool) {
	var now, stay []hooks.Hook
	for _, hook := range next {
		was, err := h.find(hook.Name)
		if err == nil && was.File == hook.File && was.Config.Equal(hook.Config) {
			now, stay = append(now, was), append(stay, was)
			continue
		}
		now = append(now, hook)
	}
	leave, kept := []string(nil), h.keptBindings(next)
	begun := map[string]*hooks.Config{}
	for _, hook := range h.all {
		if slices.ContainsFunc(stay, func(h hooks.Hook) bool { return h.Name == hook.Name }) {
			continue
		}
		leave = append(leave, hook.Name)
		_, had := hook.Config.Order(hooks.OnStartup)
		if i := slices.IndexFunc(next, func(h hooks.Hook) bool { return h.File == hook.File }); had && i >= 0 && (h.fresh[hook.Name] == nil || h.begun[hook.Name] != nil) {
			begun[hook.Name] = next[i].Config
		}
		h.takeDown(ctx, hook, kept[hook.Name].Places)
		if !slices.ContainsFunc(next, func(h hooks.Hook) bool { return h.Name == hook.Name }) {
			h.removed = append(h.removed, hook.Name)
		}
	}
	h.all, h.kept = now, kept
	h.forgetSeries()
	maps.Copy(h.begun, begun)
	for _, hook := range now {
		if !slices.ContainsFunc(stay, func(h hooks.Hook) bool { return h.Name == hook.Name }) {
			h.fresh[hook.Name] = hook.Config
		}
	}
	if len(leave) > 0 {
		ctx.Send(h.program.PID(work.MonitorsPath), messages.ExchangeWatches{Owner: h.name, Leave: leave, Stay: kept})
	}
	if schedules {
		ticking := slices.DeleteFunc(slices.Clone(stay), func(stays hooks.Hook) bool { return h.fresh[stays.Name] != nil })
		ctx.Send(h.program.PID(work.SchedulePath), messages.StartSchedules{Owner: h.name, Hooks: ticking})
	}
	ctx.Send(h.program.PID(work.Root), messages.UseQueues{Owner: h.name, Queues: hooks.Queues(now)})
	h.program.Metrics.Hooks.Loaded(messages.ModuleOf(h.name), now)
	if len(h.awaiting) > 0 {
		h.queueSynchronizations(ctx, "")
		h.answerAwaiting(ctx)
	}
}

// keptBindings are those that stay, by hook. Only bindings whose Synchronization has succeeded can:
// any other must begin again.
func (h *ownHooks) keptBindings(next []hooks.Hook) map[string]messages.StayingBindings {
	kept := map[string]messages.StayingBindings{}
	if h.tasks.runs.Len() > 0 {
		return kept
	}
	for _, hook := range next {
		was, err := h.find(hook.Name)
		if err != nil || was.File != hook.File || was.Config.Equal(hook.Config) {
			continue
		}
		places := slices.DeleteFunc(hook.Config.Same(was.Config), func(i int) bool {
			key := work.BindingKey(hook, i)
			return !h.synchronized[key] || h.deferred[key]
		})
		if len(places) > 0 {
			kept[hook.Name] = messages.StayingBindings{Hook: hook, Places: places}
		}
	}
	return kept
}

// takeDown forgets what is known of a hook, except for bindings that stay, and cancels its tasks
// that wait for another attempt: the new version has its own.
func (h *ownHooks) takeDown(ctx actor.Context, hook hooks.Hook, stay []int) {
	delete(h.fresh, hook.Name)
	delete(h.begun, hook.Name)
	for i := range hook.Config.Kubernetes {
		if slices.Contains(stay, i) {
			continue
		}
		delete(h.synchronized, work.BindingKey(hook, i))
		delete(h.deferred, work.BindingKey(hook, i))
	}
	for _, w := range work.Synchronizations(hook) {
		delete(h.queued, queuedKey(w))
	}
	for id, t := range h.tasks.all {
		if t.failing != nil && t.Task.Hook() == hook.Name {
			h.tasks.runs.Cancel(ctx, id)
		}
	}
}

// forgetSeries removes the series of hooks whose files are gone (P8). A run that is in progress may
// report once more, so they are removed again when no run is (I9). A hook of the same name that was
// loaded meanwhile keeps them.
func (h *ownHooks) forgetSeries() {
	for _, name := range h.removed {
		if _, err := h.find(name); err != nil {
			h.program.Metrics.ForgetHook(messages.ModuleOf(h.name), name)
		}
	}
	if h.tasks.runs.Len() == 0 {
		h.removed = nil
	}
}

// exchanged reports whether a hook is another one than that with the configuration, or is gone.
func (h *ownHooks) exchanged(binding messages.BindingKey, config *hooks.Config) bool {
	hook, err := h.find(binding.Hook)
	return err != nil || hook.Config != config
}

// current is a task without the triggers from before the exchange of its hook: the Synchronization
// of the new version shows those objects.
func (h *ownHooks) current(t messages.Task) messages.Task {
	w, ok := t.Work.(messages.RunHook)
	if !ok || h.fresh[w.Hook] == nil {
		return t
	}
	w.Triggers = slices.DeleteFunc(slices.Clone(w.Triggers), func(trigger messages.Trigger) bool {
		return trigger.Binding == hooks.OnSchedule || trigger.Binding == hooks.OnKubernetes && !slices.Contains(h.kept[w.Hook].Places, trigger.Index)
	})
	w.Resync = slices.DeleteFunc(slices.Clone(w.Resync), func(b messages.KubernetesBinding) bool { return !slices.Contains(h.kept[w.Hook].Places, b.Index) })
	t.Work = w
	return t
}

// superseded reports whether nothing is left of a task.
func (h *ownHooks) superseded(t messages.Task) bool {
	w, ok := t.Work.(messages.RunHook)
	return ok && h.fresh[w.Hook] != nil && w.Carried() == 0
}

// startedUp notes that the start-up of hooks is over, and starts their schedules. If the run that
// reports it was cancelled meanwhile, the schedules have just been stopped and stay so.
func (h *ownHooks) startedUp(ctx actor.Context, msg work.StartedUp) {
	for name, config := range msg.Hooks {
		if h.fresh[name] == config {
			delete(h.fresh, name)
			delete(h.begun, name)
		}
	}
	if h.tasks.runs.Lives(msg.Task) {
		ctx.Send(h.program.PID(work.SchedulePath), messages.StartSchedules{Owner: h.name, Hooks: h.all})
	}
}
