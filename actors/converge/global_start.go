package converge

import (
	"slices"
	"strings"

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
	c.log.Info("start-up begins", "globalHooks", len(c.catalog.globalHooks), "modules", len(c.catalog.tree.Modules))
	c.tellMaintenance(ctx, c.catalog.maintenance) // who is thawed during the first discovery must know what it left out
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

// exchangeGlobal queues the start-up of global hooks that are new, and starts the reload again: its
// beforeAll has not run with these hooks, or with the new global values. Tasks at the head come in
// reverse: the start-up is put before the reload that was queued first. An onStartup hook is not
// repeated for a new version of the same file.
func (c *converge) exchangeGlobal(ctx actor.Context, d work.Discovery) {
	cause := messages.Cause{Activation: messages.ByFiles, Detail: "global hooks or values"}
	var fresh []hooks.Hook     // new, or with another configuration
	began := map[string]bool{} // by name: the version before had an onStartup
	if d.GlobalHooks != nil {
		for _, was := range c.catalog.globalHooks {
			_, began[was.Name] = was.Config.Order(hooks.OnStartup)
		}
		fresh = slices.DeleteFunc(slices.Clone(d.GlobalHooks), func(now hooks.Hook) bool {
			return slices.ContainsFunc(c.catalog.globalHooks, func(was hooks.Hook) bool { return was.File == now.File && was.Config.Equal(now.Config) })
		})
		c.catalog.globalHooks = d.GlobalHooks
	}
	if c.reloads.phase != overtaken {
		c.reloads.restart(ctx, cause)
	}
	if len(fresh) > 0 {
		c.log.Info("global hooks are replaced", "start", names(fresh))
		tasks := c.startUpTasks(fresh, cause)
		c.reloads.enqueue(ctx, true, slices.DeleteFunc(tasks, func(t messages.Task) bool { // of an earlier version of the file it has run
			w, ok := t.Work.(messages.RunHook)
			return ok && w.Binding == hooks.OnStartup && began[w.Hook]
		}))
	}
}

func names(all []hooks.Hook) string {
	var list []string
	for _, hook := range all {
		list = append(list, hook.Name)
	}
	return strings.Join(list, ", ")
}
