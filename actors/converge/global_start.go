package converge

import (
	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/hooks"
	"addon-operator/messages"
)

// startUp queues steps 1 and 2 and the first reload. The maintenance modes come first: a module
// must know before its first run that Helm leaves it alone. The reload is requested at once and
// waits in main behind the start-up.
func (c *converge) startUp(ctx actor.Context) {
	cause := messages.Cause{Activation: messages.Startup}
	c.reloads.span = c.program.ConvergeSpan(1, cause)
	c.log.Info("start-up begins", "globalHooks", len(c.catalog.globalHooks), "modules", len(c.catalog.Tree.Modules))
	c.tellMaintenance(ctx) // who is thawed during the first discovery must know what it left out
	c.reloads.enqueue(ctx, false, c.startUpTasks(c.catalog.globalHooks, cause))
	c.reloads.request(ctx, cause)
}

// startUpTasks are onStartup (G1) and the Synchronizations in main (G2) of some global hooks, and
// the task that waits for those of other queues (F14). That task comes also without any hooks: its
// end starts the schedules.
func (c *converge) startUpTasks(begin []hooks.Hook, cause messages.Cause) (tasks []messages.Task) {
	for _, hook := range hooks.ByOrder(begin, hooks.OnStartup) {
		tasks = append(tasks, c.program.NewTask(messages.GlobalHooks, work.OrderWork(hook, hooks.OnStartup), cause))
	}
	for _, hook := range begin { // alphabetical, as they were found
		for _, w := range work.Synchronizations(hook) {
			if hook.Config.Kubernetes[w.Bindings[0]].Queue == hooks.MainQueue {
				tasks = append(tasks, c.program.NewTask(messages.GlobalHooks, w, cause))
			}
		}
	}
	return append(tasks, c.program.NewTask(messages.GlobalHooks, messages.AwaitSynchronization{}, cause))
}

// exchangeGlobal queues the start-up of the global hooks, if their files have changed, and starts the reload again: its
// beforeAll has not run with these hooks, or with the new global values. Tasks at the head come in
// reverse: the start-up is put before the reload that was queued first.
func (c *converge) exchangeGlobal(ctx actor.Context, d work.Discovery) {
	cause := messages.Cause{Activation: messages.ByFiles, Detail: "global hooks or values"}
	if c.reloads.phase != overtaken {
		c.reloads.restart(ctx, cause)
	}
	if d.GlobalAsked {
		c.catalog.globalHooks = d.GlobalHooks
		c.log.Info("global hooks have changed and start again")
		c.reloads.enqueue(ctx, true, c.startUpTasks(d.GlobalHooks, cause))
	}
}
