package converge

import (
	"addon-operator/actors/decide"
	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/messages"
)

// reloadTasks are the tasks that the steps of a reload become, in their order: runs, deletes,
// purges, afterAll, the end (E8, X21). Modules of one order number form a group, which one task
// runs in parallel, if the option allows more than one at a time (X24).
func reloadTasks(p *shared.Program, steps decide.Steps, modules []addons.Module, reload int, afterAll []hooks.Hook, cause messages.Cause) []messages.Task {
	var tasks []messages.Task
	// All steps have the number of the reload, by which DropTasks finds them when it is overtaken
	// (F10).
	add := func(owner string, work messages.Work) {
		t := p.NewTask(owner, work, cause)
		t.Reload = reload
		tasks = append(tasks, t)
	}
	for _, group := range steps.Groups(modules, p.Width) {
		if len(group) == 1 {
			add(group[0], messages.RunModule{})
		} else {
			add(messages.Converge, messages.RunModules{Names: group})
		}
	}
	for _, name := range steps.Delete {
		add(name, messages.DeleteModule{})
	}
	for _, name := range steps.Purge {
		add(messages.Converge, messages.PurgeRelease{Release: name})
		tasks[len(tasks)-1].AllowFailure = true // retried outside of the main queue (E10)
	}
	for _, hook := range afterAll {
		add(messages.GlobalHooks, work.OrderWork(hook, hooks.AfterAll))
	}
	// The end is a task of global-hooks, which alone knows whether afterAll hooks have changed
	// global values (G8). In the queue it comes when all steps before it have ended.
	add(messages.GlobalHooks, messages.FinishReload{})
	return tasks
}
