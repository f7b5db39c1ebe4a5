package actors

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// maxRestarts is how often a reload may be started again before it is finished first.
const maxRestarts = 3

// One reload is in progress at a time, by the phases of convergePhase. A change of global values starts it again
// (F10). What changes more often than a reload takes would keep the last modules from ever running. So a reload that
// was started again maxRestarts times is finished first, and then the next begins. As long as another one is requested
// during each, none is started again.

// request queues 'reload all modules': at the tail of main (F4), or, while one is in progress, in place of its pending
// steps (F10). One that waits serves all requests (F9). If that has happened too often, the reload in progress ends
// first, unless its head fails: then the queue lets the next one replace it.
func (c *converge) request(ctx actor.Context, cause messages.Cause) {
	c.Noticed = c.Noticed || cause.Activation == messages.ByFiles
	switch {
	case c.phase == requested || c.phase == postponed: // it waits
		return
	case c.phase == idle:
		c.become(requested)
	case c.restarts < maxRestarts:
		c.restart(ctx, cause)
		return
	default:
		c.program.Metrics.ReloadsPostponed.WithLabelValues(activation(cause)).Inc()
		if c.restarts == maxRestarts { // reported once until a reload ends with nothing postponed
			c.restarts++
			const what = "reloads of all modules are restarted again and again: each one ends before the next one starts; fix what changes so often"
			c.log.Warn(what, "cause", cause)
			c.program.Notify(kube.Notice{Warning: true, Reason: "ReloadPostponed", Message: what + ": " + cause.String()})
		}
		c.become(postponed)
	}
	c.program.Enqueue(ctx, false, c.program.NewTask(messages.Converge, messages.ReloadModules{}, cause))
}

// delayedReload is a reload that waited because it is part of a loop.
type delayedReload struct{ cause messages.Cause }

// requestUnlooped is request for what hooks have caused: a cause that goes round in a loop waits
// first. One reload that waits serves all.
func (c *converge) requestUnlooped(ctx actor.Context, cause messages.Cause) {
	switch d := loopDelay(cause); {
	case d == 0:
		c.request(ctx, cause)
	case !c.delayed:
		c.delayed = true
		c.program.Looping(c.log, cause, d)
		c.program.SendLater(ctx, d, delayedReload{cause})
	}
}

// restart has the queue replace what is left of the reload in progress by the next one.
func (c *converge) restart(ctx actor.Context, cause messages.Cause) {
	c.log.Info("reload of all modules starts again", "cause", cause)
	c.restarts++
	c.program.Metrics.ReloadRestarts.WithLabelValues(activation(cause)).Inc()
	c.become(requested)
	c.program.Enqueue(ctx, true, c.program.NewTask(messages.Converge, messages.ReloadModules{}, cause))
}

// begin puts the beforeAll hooks and the discovery at the head of main (G3, G4, F5). Without such hooks the task
// itself becomes the discovery. The first reload continues the span of the start-up.
func (c *converge) begin(ctx actor.Context, t messages.Task) {
	c.become(reloading)
	cause := t.Cause
	c.cause = cause
	c.number++
	c.began = time.Now()
	if c.number > 1 {
		c.span.End(nil) // it was overtaken, or is over
		c.span = c.program.convergeSpan(c.number, cause)
	}
	var tasks []messages.Task
	for _, hook := range hooks.ByOrder(c.globalHooks, hooks.BeforeAll) {
		tasks = append(tasks, c.program.NewTask(messages.GlobalHooks, orderWork(hook, hooks.BeforeAll), cause))
	}
	if len(tasks) == 0 {
		t.Work, t.Reload, t.Trace = messages.DiscoverModules{}, c.number, c.span.Name()
		c.discover(ctx, t)
		return
	}
	c.enqueue(ctx, true, c.number, append(tasks, c.program.NewTask(messages.Converge, messages.DiscoverModules{}, cause)))
	refuse(ctx, t) // it is done
}

// enqueue queues tasks of the start-up, or as steps of the reload with this number, by which the queue finds them when
// the next one takes its place (F10).
func (c *converge) enqueue(ctx actor.Context, head bool, reload int, tasks []messages.Task) {
	for i := range tasks {
		tasks[i].Reload, tasks[i].Trace = reload, c.span.Name()
	}
	c.program.Enqueue(ctx, head, tasks...)
}

// reloadTasks are the tasks that the steps of a reload become, in their order: runs, deletes,
// purges, afterAll, the end (E8, X21). Modules of one order number form a group, which one task
// runs in parallel, if the option allows more than one at a time (X24).
func (c *converge) reloadTasks(steps plan.Steps) (tasks []messages.Task) {
	add := func(owner string, w messages.Work) { tasks = append(tasks, c.program.NewTask(owner, w, c.cause)) }
	for _, group := range steps.Groups(c.Tree.Modules, c.program.Width) {
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
		tasks[len(tasks)-1].AllowFailure = true // the next reload tries it again (E10)
	}
	for _, hook := range hooks.ByOrder(c.globalHooks, hooks.AfterAll) {
		add(messages.GlobalHooks, orderWork(hook, hooks.AfterAll))
	}
	// The queue executes it when all steps before it have ended.
	add(messages.Converge, messages.FinishReload{})
	return tasks
}

// startUp queues steps 1 and 2 and the first reload. The maintenance modes come first: a module
// must know before its first run that Helm leaves it alone. The reload is requested at once and
// waits in main behind the start-up.
func (c *converge) startUp(ctx actor.Context) {
	cause := messages.Cause{Activation: messages.Startup}
	c.span = c.program.convergeSpan(1, cause)
	c.log.Info("start-up begins", "globalHooks", len(c.globalHooks), "modules", len(c.Tree.Modules))
	c.tell(ctx) // who is thawed during the first discovery must know what it left out
	c.enqueue(ctx, false, 0, c.startUpTasks(c.globalHooks, cause))
	c.request(ctx, cause)
}

// startUpTasks are onStartup (G1) and the Synchronizations in main (G2) of some global hooks, and
// the task that waits for those of other queues (F14). That task comes also without any hooks: its
// end starts the schedules.
func (c *converge) startUpTasks(begin []hooks.Hook, cause messages.Cause) (tasks []messages.Task) {
	for _, hook := range hooks.ByOrder(begin, hooks.OnStartup) {
		tasks = append(tasks, c.program.NewTask(messages.GlobalHooks, orderWork(hook, hooks.OnStartup), cause))
	}
	for _, hook := range begin { // alphabetical, as they were found
		for _, w := range synchronizations(hook) {
			if hook.Config.Kubernetes[w.Bindings[0]].Queue == hooks.MainQueue {
				tasks = append(tasks, c.program.NewTask(messages.GlobalHooks, w, cause))
			}
		}
	}
	return append(tasks, c.program.NewTask(messages.GlobalHooks, messages.AwaitSynchronization{}, cause))
}

// exchangeGlobal queues the start-up of the global hooks, if their files have changed, and starts the reload again:
// its beforeAll has not run with these hooks, or with the new global values. Tasks at the head come in reverse: the
// start-up is put before the reload that was queued first.
func (c *converge) exchangeGlobal(ctx actor.Context, d discovery) {
	cause := messages.Cause{Activation: messages.ByFiles, Detail: "global hooks or values"}
	if c.Noticed = true; c.phase != requested { // what has changed with them may not be complete yet
		c.restart(ctx, cause)
	}
	if d.GlobalAsked {
		c.globalHooks = d.GlobalHooks
		c.log.Info("global hooks have changed and start again")
		c.enqueue(ctx, true, 0, c.startUpTasks(d.GlobalHooks, cause))
	}
}

// diskChanged comes when files below the modules directories, or of global hooks, may have changed (P8). what differs
// from what is in force; it is empty for nothing.
type diskChanged struct{ what string }

// watch begins to watch the disk, if it is to be watched. That reads all directories, so it is a run. The disk is
// compared once more when it has begun, because the first discovery may be over by then.
func (c *converge) watch(ctx actor.Context) {
	c.program.Runs.Tree.Store(c.Tree)
	if c.program.Disk == nil {
		return
	}
	self := ctx.Self()
	look := func() { c.program.Send(self, diskChanged{c.program.Runs.Differs()}) }
	c.Runs.Start(ctx, supervisor.Task{
		ID: "watch-disk", AllowFailure: true, Ended: func(actor.Context, bool) {},
		Work: func(*supervisor.Run) (any, error) {
			c.program.Disk(c.ctx, look)
			look()
			return nil, nil
		},
	})
}

// diskChanged has a reload compare the disk with the tree in force, and put in force what fits. A discovery that
// failed may succeed now.
func (c *converge) diskChanged(ctx actor.Context, what string) {
	c.Runs.RetryNow()
	if what != "" {
		c.log.Info("files have changed: all modules are discovered again", "what", what)
		c.request(ctx, messages.Cause{Activation: messages.ByFiles, Detail: what})
	}
}

// purgesDecided notes which purges a reload does and which it holds, and reports those that no person has allowed.
//
// Absence is not an order to delete (P1): a volume that is not mounted looks like modules that were
// removed. A reload holds its purges back when they look like that; people are shown which releases
// would go and how to allow it. The rest of the reload continues. A confirmation is valid for the releases that it was
// given for, and is removed once it was read.
//
// A purge uninstalls the release of a module that has no directory (G7), if an operator has
// installed it: people and other programs may have releases in the namespace, too (P2). It is a
// step of a reload, tried once there; one that fails is tried again by the next reload (E10).
func (c *converge) purgesDecided(ctx actor.Context, s plan.Steps) {
	if len(s.Confirmed) > 0 {
		for _, release := range s.Confirmed {
			c.Purges.Allowed[release] = true
		}
		c.log.Info("a purge is confirmed", "releases", s.Confirmed)
		c.program.Notify(kube.Notice{OnConfigMap: true, Reason: "PurgeConfirmed", Message: "The purge of releases is confirmed: " + strings.Join(s.Confirmed, ", ")})
	}
	due := slices.Concat(s.Purge, s.Delete)
	maps.DeleteFunc(c.Purges.Allowed, func(name string, _ bool) bool { return !slices.Contains(due, name) }) // its directory is back
	if c.Purges.Confirmed != "" {
		if len(s.Confirmed) == 0 {
			c.log.Warn("a confirmation does not match the purge that is held back now, if any; it is removed", "annotation", kube.ConfirmPurgeAnnotation, "value", c.Purges.Confirmed, "held", s.Held)
		}
		ctx.Send(c.program.PID(configPath), messages.RemoveConfirmation{Value: c.Purges.Confirmed})
	}
	before := c.Purges.Held
	c.held, c.Purges.Held, c.Purges.Confirmed = nil, s.Held, ""
	if len(s.Held) == 0 {
		return
	}
	c.held = &view.HeldPurge{Releases: s.Held, Why: s.HeldWhy, Confirm: c.program.ConfirmCommand(plan.Confirmation(s.Held))}
	if !slices.Equal(before, s.Held) {
		c.log.Warn("a purge is held back: releases stay until a person allows it, or their directories or flags are back", "releases", s.Held, "why", s.HeldWhy, "confirm", c.held.Confirm)
		c.program.Notify(kube.Notice{OnConfigMap: true, Warning: true, Reason: "PurgeHeld", Message: c.held.String()})
	}
}

// confirmPurge has the next reload look at a confirmation, and requests that reload. One that begins with the name of
// a module is for an upgrade that this module holds back.
func (c *converge) confirmPurge(ctx actor.Context, value string) {
	if name, _, ok := strings.Cut(value, ":"); ok {
		if c.Tree.Module(name) != nil {
			ctx.Send(c.program.Owner(name), messages.ConfirmPurge{Value: value})
		}
		ctx.Send(c.program.PID(configPath), messages.RemoveConfirmation{Value: value})
		return
	}
	c.Purges.Confirmed = value
	c.react(ctx, true, nil, messages.Cause{Activation: messages.ByConfigMap, Detail: kube.ConfirmPurgeAnnotation})
}

// begins is what a discovery begins with. It shares nothing that converge changes later.
func (c *converge) begins() discovery {
	d := c.discovery
	d.Deployed, d.Ran, d.Purges.Allowed = maps.Clone(c.Deployed), maps.Clone(c.Ran), maps.Clone(c.Purges.Allowed)
	d.Before = c.Enabled
	return d
}

// found puts in force what a discovery has found, logs warnings that the tree before did not have, and returns the
// modules whose directories are gone since the last one.
func (c *converge) found(d discovery) (gone []string) {
	for _, m := range c.Tree.Modules {
		if d.Tree.Module(m.Name) == nil {
			gone = append(gone, m.Name)
		}
	}
	for _, warning := range d.Tree.Warnings {
		if !slices.Contains(c.Tree.Warnings, warning) {
			c.log.Warn(warning)
		}
	}
	c.Tree, c.discoveryFails = d.Tree, ""
	c.Noticed = c.Noticed && c.phase != reloading // else the reload that waits may be for what has changed since
	c.program.Runs.Tree.Store(d.Tree)
	for _, name := range d.Releases {
		c.Deployed[name] = true
	}
	for _, name := range d.Others { // they have no label of an operator, and are never purged (P2)
		delete(c.Deployed, name) // of a module that never adopted it, and is gone
	}
	if len(d.Others) > 0 && !slices.Equal(d.Others, c.Others) {
		c.log.Info("releases that were not installed by an addon-operator are left alone", "releases", d.Others)
	}
	c.Others = d.Others
	return gone
}

// saysNo reports whether the last answer of a module's enabled script was false.
func (c *converge) saysNo(m addons.Module) bool {
	v := c.Verdicts[m.Name]
	return v.Source == plan.ByScript && !v.Enabled
}

// wanted reports whether flags switch a module on, and its script has not said no.
func (c *converge) wanted(m addons.Module) bool {
	return plan.SwitchedOn(m, c.Dynamic, c.Config).Enabled && !c.saysNo(m)
}

// react has a reload, or runs of these modules, follow from what a person did. Enabled scripts that have a say,
// because flags switch their modules on, are asked first: these modules run afterwards (E6).
func (c *converge) react(ctx actor.Context, reload bool, modules []string, cause messages.Cause) {
	switch {
	case c.number == 0: // the first reload sees it
	case reload:
		c.request(ctx, cause)
	default:
		asks := func(name string) bool {
			m := c.Tree.Module(name)
			return m != nil && m.EnabledScript != "" && plan.SwitchedOn(*m, c.Dynamic, c.Config).Enabled
		}
		others := slices.DeleteFunc(slices.Clone(modules), asks)
		if len(others) < len(modules) {
			scripted := messages.DiscoverModules{Modules: slices.DeleteFunc(modules, func(name string) bool { return !asks(name) })}
			c.program.Enqueue(ctx, false, c.program.NewTask(messages.Converge, scripted, cause))
		}
		c.run(ctx, others, cause)
	}
}

// run queues a run for those of the modules that are enabled (G16).
func (c *converge) run(ctx actor.Context, names []string, cause messages.Cause) {
	for _, name := range c.Enabled { // in the order of modules
		if slices.Contains(names, name) {
			c.program.Enqueue(ctx, false, c.program.NewTask(name, messages.RunModule{}, cause))
		}
	}
}

// forget ends a module without a delete of its release: its directory is gone, or it is disabled under maintenance.
func (c *converge) forget(ctx actor.Context, name string) {
	msg := messages.SetModule{Want: messages.Forgotten, Maintenance: c.told[name].Maintenance}
	c.told[name] = msg
	ctx.Send(c.program.Owner(name), msg)
}
