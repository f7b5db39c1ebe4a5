package actors

import (
	"log/slog"
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

// reloads is the part of converge that begins reloads, starts them again and ends them: one at a
// time, by the phases of convergePhase.
//
// A change of global values starts the reload in progress again (F10). What changes more often than
// a reload takes would keep the last modules from ever running. So a reload that was started again
// maxRestarts times is finished first, and then the next begins. As long as another one is
// requested during each, none is started again.
type reloads struct {
	program *program
	log     *slog.Logger

	phase  convergePhase
	number int // of the last reload that has begun; 0 before the first
	// discoveredIn is the number of the last reload whose discovery counts.
	discoveredIn int
	began        time.Time
	cause        messages.Cause
	// also are the other causes of the reload in progress, and next those of the one that comes.
	also, next []messages.Cause
	span       span      // of the start-up and the reload in progress
	discovery  discovery // the last one that counts
	ready      bool      // the first converge is over
	delayed    bool      // a delayedReload is on its way

	// restarts counts since a reload has last ended without another one being asked for.
	restarts int
	// postponed is the latest cause of the reload that follows the one in progress; nil for none.
	postponed *messages.Cause
	told      bool // the postponement was logged; until a reload ends with nothing postponed
}

// discovers reports whether a discovery reads the disk, or is about to.
func (r *reloads) discovers() bool {
	return r.number == 0 || (r.phase == reloading || r.phase == postponed) && r.discoveredIn != r.number
}

// request queues 'reload all modules': at the tail of main (F4), or, while one is in progress, in
// place of its pending steps (F10). One that waits serves all requests (F9). If that has happened too often, the reload in
// progress ends first, unless its head fails: then the queue lets the next one replace it.
func (r *reloads) request(ctx actor.Context, cause messages.Cause) {
	switch r.phase {
	case starting, requested, overtaken, postponed:
		r.adds(cause)
		if r.phase == postponed {
			r.postponed = &cause
		}
	case reloading:
		if r.restarts < maxRestarts {
			r.restart(ctx, cause)
			return
		}
		r.postpone(cause)
		r.program.Enqueue(ctx, false, r.program.NewTask(messages.Converge, messages.ReloadModules{}, cause))
	default:
		next := requested
		if r.phase == created {
			next = starting
		}
		r.become(next)
		r.program.Enqueue(ctx, false, r.program.NewTask(messages.Converge, messages.ReloadModules{}, cause))
	}
}

// postpone notes and reports a reload that follows the one in progress.
func (r *reloads) postpone(cause messages.Cause) {
	r.program.Metrics.ReloadsPostponed.WithLabelValues(activation(cause)).Inc()
	if !r.told {
		r.log.Warn("reloads of all modules are restarted again and again: the one in progress ends before the next one starts; fix what changes so often", "restarts", r.restarts, "cause", cause)
		r.program.Notify(kube.Notice{Warning: true, Reason: "ReloadPostponed", Message: "Reloads of all modules are restarted again and again, so each one ends before the next one starts. What changes so often: " + cause.String()})
	}
	r.postponed, r.told = &cause, true
	r.become(postponed)
}

// ended ends a reload, and returns the phase that follows.
func (r *reloads) ended() convergePhase {
	if r.phase == postponed {
		r.postponed = nil
		return requested // its task waits
	}
	r.restarts, r.told = 0, false
	return idle
}

// adds has the next reload name other causes, too, of which the first ones are kept.
func (r *reloads) adds(causes ...messages.Cause) {
	r.next = messages.Task{Cause: causes[0], Also: r.next}.For(causes[1:]...).Causes()
}

// delayedReload is a reload that waited because it is part of a loop.
type delayedReload struct{ cause messages.Cause }

// requestUnlooped is request for what hooks have caused: a cause that goes round in a loop waits
// first. One reload that waits serves all.
func (r *reloads) requestUnlooped(ctx actor.Context, cause messages.Cause) {
	switch d := loopDelay(cause); {
	case d == 0:
		r.request(ctx, cause)
	case r.delayed:
		r.adds(cause)
	default:
		r.delayed = true
		r.program.Looping(r.log, cause, d)
		r.program.SendLater(ctx, d, delayedReload{cause})
	}
}

// restart has the queue replace what is left of the reload in progress by the next one.
func (r *reloads) restart(ctx actor.Context, cause messages.Cause) {
	r.log.Info("reload of all modules starts again", "cause", cause)
	if r.discovers() { // else its steps that are replaced have its causes
		r.adds(append(r.also, r.cause)...)
	}
	r.restarts++
	r.postponed = nil // it is the next one
	r.program.Metrics.ReloadRestarts.WithLabelValues(activation(cause)).Inc()
	r.become(overtaken)
	r.program.Enqueue(ctx, true, r.program.NewTask(messages.Converge, messages.ReloadModules{}, cause))
}

// begin puts the beforeAll hooks and the discovery at the head of main (G3, G4, F5). Without such hooks the task itself
// is the discovery, which it returns. The first reload continues the span of the start-up.
func (r *reloads) begin(ctx actor.Context, global []hooks.Hook, t messages.Task) (discovery *messages.Task) {
	if r.phase == postponed { // the head of the one before fails
		r.postponed = nil
		r.log.Info("reload of all modules starts again", "cause", t.Cause)
	}
	r.become(reloading)
	all := t.For(r.next...)
	cause := all.Cause
	r.cause, r.also, r.next = cause, all.Also, nil
	r.number++
	r.began = time.Now()
	if r.number > 1 {
		r.span.End(nil) // it was overtaken, or is over
		r.span = r.program.ConvergeSpan(r.number, cause)
	}
	var tasks []messages.Task
	for _, hook := range hooks.ByOrder(global, hooks.BeforeAll) {
		tasks = append(tasks, r.program.NewTask(messages.GlobalHooks, orderWork(hook, hooks.BeforeAll), cause))
	}
	if len(tasks) == 0 {
		t.Work, t.Reload, t.Cause, t.Also, t.Trace = messages.DiscoverModules{}, r.number, cause, r.also, r.span.Name()
		return &t
	}
	tasks = append(tasks, r.program.NewTask(messages.Converge, messages.DiscoverModules{}, cause))
	for i := range tasks {
		tasks[i].Reload = r.number
	}
	r.enqueue(ctx, true, tasks)
	return nil
}

// enqueue queues tasks as parts of the reload in progress.
func (r *reloads) enqueue(ctx actor.Context, head bool, tasks []messages.Task) {
	for i := range tasks {
		tasks[i].Trace, tasks[i].Also = r.span.Name(), r.also
	}
	r.program.Enqueue(ctx, head, tasks...)
}

// steps decides what a reload does, and reports the purges that no person has allowed.
//
// Absence is not an order to delete (P1): a volume that is not mounted looks like modules that were
// removed. A reload holds its purges back when they look like that; people are shown which releases
// would go and how to allow it. The rest of the reload continues.
func (c *converge) steps(ctx actor.Context, enabled []string, verdicts map[string]plan.Verdict) plan.Steps {
	known := c.catalog.Reload
	known.Enabled, known.Verdicts = enabled, verdicts
	s := known.Steps()
	c.catalog.purgesDecided(ctx, s)
	return s
}

// mayPurge says whether a purge that was queued, maybe days ago, is still due. It is not when the
// directory is back, also if it does not load, when maintenance has begun, or when a later reload
// holds the purge (P1).
func (c *converge) mayPurge(release string) purgeable {
	known := func(m addons.Module) bool { return m.Name == release }
	back := slices.ContainsFunc(c.catalog.Tree.Modules, known) || slices.ContainsFunc(c.catalog.Tree.Broken, known) ||
		slices.Contains(c.catalog.Tree.Unreachable, release)
	return purgeable{
		May: !back && !slices.Contains(c.catalog.Purges.Held, release) &&
			!plan.Untouchable(c.catalog.Tree.Modules, c.catalog.Maintenance)(release),
		Data:     c.catalog.MayDeleteData(release),
		Removed:  c.catalog.removed[release],
		Orphaned: c.catalog.Orphaned(release),
	}
}

// reloadTasks are the tasks that the steps of a reload become, in their order: runs, deletes,
// purges, afterAll, the end (E8, X21). Modules of one order number form a group, which one task
// runs in parallel, if the option allows more than one at a time (X24).
func reloadTasks(p *program, steps plan.Steps, modules []addons.Module, reload int, afterAll []hooks.Hook, cause messages.Cause) []messages.Task {
	var tasks []messages.Task
	// All steps have the number of the reload, by which the queue finds them when it is overtaken
	// (F10).
	add := func(owner string, w messages.Work) {
		t := p.NewTask(owner, w, cause)
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
		tasks[len(tasks)-1].AllowFailure = true // the next reload tries it again (E10)
	}
	for _, hook := range afterAll {
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

// exchangeGlobal queues the start-up of the global hooks, if their files have changed, and starts the reload again: its
// beforeAll has not run with these hooks, or with the new global values. Tasks at the head come in
// reverse: the start-up is put before the reload that was queued first.
func (c *converge) exchangeGlobal(ctx actor.Context, d discovery) {
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

// diskChanged comes when files below the modules directories, or of global hooks, may have changed (P8). what differs
// from what is in force; it is empty for nothing.
type diskChanged struct{ what string }

// watch begins to watch the disk, if it is to be watched. That reads all directories, so it is a run. The disk is compared
// once more when it has begun, because the first discovery may be over by then.
func (c *converge) watch(ctx actor.Context) {
	c.program.Runs.Tree.Store(c.catalog.Tree)
	if c.program.Disk == nil {
		return
	}
	self := ctx.Self()
	look := func() { c.program.Send(self, diskChanged{c.program.Runs.Differs()}) }
	c.runs.Start(ctx, supervisor.Task{
		ID: "watch-disk", AllowFailure: true, Ended: func(actor.Context, supervisor.Outcome) {},
		Work: func(*supervisor.Run) (any, error) {
			c.program.Disk(c.ctx, look)
			look()
			return nil, nil
		},
	})
}

// diskChanged has a reload compare the disk with the tree in force, and put in force what fits. A discovery that failed
// may succeed now.
func (c *converge) diskChanged(ctx actor.Context, what string) {
	c.runs.RetryNow()
	if what != "" {
		c.log.Info("files have changed: all modules are discovered again", "what", what)
		c.reloads.request(ctx, messages.Cause{Activation: messages.ByFiles, Detail: what})
	}
}

// purgesDecided notes which purges a reload does and which it holds. A confirmation is valid for the releases that it was
// given for, and is removed once it was read.
//
// A purge uninstalls the release of a module that has no directory (G7), if an operator has
// installed it: people and other programs may have releases in the namespace, too (P2). It is a
// step of a reload, tried once there; one that fails is tried again by the next reload (E10).
func (c *catalog) purgesDecided(ctx actor.Context, s plan.Steps) {
	if len(s.Confirmed) > 0 {
		allowed := map[string]bool{}
		maps.Copy(allowed, c.Purges.Allowed)
		for _, release := range s.Confirmed {
			allowed[release] = true
		}
		c.Purges.Allowed = allowed
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
	c.Purges.Held, c.Purges.Why, c.Purges.Confirmed = s.Held, s.HeldWhy, ""
	switch held := c.heldPurge(); {
	case slices.Equal(before, c.Purges.Held):
	case held == nil:
		c.log.Info("no purge is held back any longer")
	default:
		c.log.Warn("a purge is held back: releases stay until a person allows it, or their directories or flags are back", "releases", held.Releases, "why", held.Why, "confirm", held.Confirm)
		c.program.Notify(kube.Notice{OnConfigMap: true, Warning: true, Reason: "PurgeHeld", Message: held.String()})
	}
}

// heldPurge is the report about the purges that are held back; nil for none.
func (c *catalog) heldPurge() *view.HeldPurge {
	if len(c.Purges.Held) == 0 {
		return nil
	}
	return &view.HeldPurge{
		Releases: c.Purges.Held, Why: c.Purges.Why,
		Confirm: c.program.ConfirmCommand(plan.Confirmation(c.Purges.Held)),
	}
}

// confirmPurge has the next reload look at a confirmation, and requests that reload. One that begins with the name of a
// module is for an upgrade that this module holds back.
func (c *converge) confirmPurge(ctx actor.Context, value string) {
	if name, _, ok := strings.Cut(value, ":"); ok {
		if c.catalog.Tree.Module(name) != nil {
			ctx.Send(c.program.Owner(name), messages.ConfirmPurge{Value: value})
		} else {
			c.log.Warn("a confirmation names no module; it is removed",
				"annotation", kube.ConfirmPurgeAnnotation, "value", value)
		}
		ctx.Send(c.program.PID(configPath), messages.RemoveConfirmation{Value: value})
		return
	}
	c.catalog.Purges.Confirmed = value
	if c.reloads.phase.begun() {
		c.reloads.request(ctx, messages.Cause{Activation: messages.ByConfigMap, Detail: kube.ConfirmPurgeAnnotation})
	}
}
