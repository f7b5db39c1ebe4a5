package actors

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/decide"
	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// converge owns 'reload all modules' (seed 001; steps 3 to 8 of seed 002): it puts the
// steps into the main queue, finds out which modules are enabled, and knows whether the
// first converge is over, which is readiness.
type converge struct {
	runs    *supervisor.Runs
	program *program
	log     *slog.Logger
	ctx     context.Context // ends with the program

	awaitAsks []*actor.PID // discoveries that wait until no other run asks an enabled script

	tree        *addons.Tree
	globalHooks []hooks.Hook
	config      map[string]bool   // flags in the ConfigMap
	dynamic     map[string]bool   // flags of global hooks
	dynamicBy   map[string]string // which hook has set each
	configured  map[string]string // modes in the ConfigMap
	suspended   map[string]bool   // by objects of kind Module
	maintenance map[string]string // the modes of both
	enabled     []string          // by the last discovery
	verdicts    map[string]decide.Verdict
	// discoveryFails says why the discovery in progress has failed; "" when it has not. off says of
	// each module that is off why, told what the log has of them.
	discoveryFails string
	off, on        map[string]string
	told           []string
	// globalProblems, and unused files of the modules that are enabled; problems is what is shown of all.
	globalProblems   []string
	unused, problems map[string][]string
	// deployed are modules and releases that have something in the cluster (E9).
	deployed map[string]bool
	removed  map[string]bool // modules whose directories are gone; their actors live on
	others   []string        // releases that are left alone, as the log has them
	purges   purger
	listed   bool
	phase    convergePhase
	reload   int // number of the last reload that has begun
	// discoveredIn is the number of the last reload whose discovery counts.
	discoveredIn int
	asks         asks
	looks        looks
	restarts     restarts
	began        time.Time
	ready        bool // the first converge is over
	cause        messages.Cause
	span         work.Span // of the start-up and the reload in progress
}

func newConverge(ctx context.Context, p *program, b *boot) *converge {
	runs := supervisor.NewRuns(p.System, p.Log)
	return &converge{
		runs: runs, purges: purger{program: p, runs: runs, log: p.Log, tried: map[string]string{}}, program: p, log: p.Log, ctx: ctx, phase: created,
		tree: b.tree, globalHooks: b.globalHooks, config: b.config.flags, configured: b.config.maintenance, suspended: b.suspended, maintenance: decide.WithSuspended(b.config.maintenance, b.suspended), deployed: map[string]bool{}, removed: map[string]bool{}, globalProblems: b.problems, unused: map[string][]string{},
	}
}

// Receive implements actor.Actor.
func (c *converge) Receive(ctx actor.Context) {
	if c.runs.Receive(ctx) {
		c.look(ctx)
		c.askScripts(ctx)
		c.publish()
		return
	}
	if c.answer(ctx) {
		return
	}
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		c.explainOff()
		c.listProblems()
		c.watchDisk(ctx.Self())
	case *actor.Stopping:
		c.span.End(nil)
	case messages.StartUp:
		c.startUp(ctx)
	case messages.ReloadModules:
		c.reloadUnlooped(ctx, msg.Cause)
	case confirmPurge:
		c.confirmPurge(ctx, msg.value)
	case remindHeld:
		if msg.told == c.purges.reminded {
			c.purges.notice(ctx)
		}
	case delayedReload:
		c.requestReload(ctx, msg.cause)
	case messages.ExecuteTask:
		c.execute(ctx, msg.Task)
	case messages.DiskChanged:
		c.diskChanged(ctx)
	case messages.ConfigChanged:
		c.configChanged(ctx, msg)
	case suspensionChanged:
		c.suspensionChanged(ctx, msg)
	case sectionChanged:
		c.asks.add(msg)
	case askAgain:
		if msg.reload == c.reload { // else a discovery asks, or has asked
			c.asks.add(msg.changed)
		}
	case messages.ConfigFlagsSaved:
		c.config = msg.Flags
		c.switchModules(ctx)
	case messages.SetDynamicFlags:
		c.dynamic, c.dynamicBy = msg.Flags, msg.By
		c.switchModules(ctx)
	case messages.ModuleDeleted:
		delete(c.deployed, msg.Name)
	case messages.ConvergeFinished:
		c.finished(ctx, msg)
	case postponedDue:
		c.postponedDue(ctx, msg)
	case messages.ReloadHeld:
		c.reloadHeld(ctx, msg)
	case messages.RetryNow:
		c.runs.RetryNow()
	default:
		unhandled(ctx, c.log)
	}
	c.look(ctx)
	c.askScripts(ctx)
	c.publish()
}

// answer answers the questions of runs, which change nothing that is published, and reports whether it was one.
func (c *converge) answer(ctx actor.Context) bool {
	switch msg := ctx.Message().(type) {
	case work.GetDiscovery:
		if msg.Discovers && c.looks.looking {
			c.looks.waiting = append(c.looks.waiting, ctx.Sender())
			return true
		}
		ctx.Respond(c.discovery())
	case work.EndPurges:
		c.purges.giveUp(ctx, msg.Modules)
	case work.EndAsks:
		c.endAsks(ctx)
	case work.MayPurge:
		ctx.Respond(c.mayPurge(msg.Release))
	default:
		return false
	}
	return true
}

// discovery is what one begins with.
func (c *converge) discovery() work.Discovery {
	return work.Discovery{Tree: c.tree, Config: c.config, Dynamic: c.dynamic, Maintenance: c.maintenance, Suspended: c.suspended, List: !c.listed, Before: c.enabled, Verdicts: c.verdicts, Deployed: maps.Clone(c.deployed), Purges: c.purges.Clone()}
}

// startUp queues steps 1 and 2 and the first reload.
func (c *converge) startUp(ctx actor.Context) {
	cause := messages.Cause{Activation: messages.Startup}
	c.span = c.program.ConvergeSpan(1, cause)
	c.log.Info("start-up begins", "globalHooks", len(c.globalHooks), "modules", len(c.tree.Modules))
	c.tellMaintenance(ctx, c.maintenance) // who is thawed during the first discovery must know what it left out
	c.enqueue(ctx, false, c.startUpTasks(c.globalHooks, cause))
	c.requestReload(ctx, cause)
}

// startUpTasks are steps 1 and 2 of global hooks.
func (c *converge) startUpTasks(begin []hooks.Hook, cause messages.Cause) (tasks []messages.Task) {
	for _, hook := range hooks.ByOrder(begin, hooks.OnStartup) {
		tasks = append(tasks, c.program.task(messages.GlobalHooks, work.OrderWork(hook, hooks.OnStartup), cause))
	}
	for _, hook := range begin { // alphabetical, as they were found
		for _, w := range work.Synchronizations(hook) {
			if hook.Config.Kubernetes[w.Bindings[0]].Queue == hooks.MainQueue {
				tasks = append(tasks, c.program.task(messages.GlobalHooks, w, cause))
			}
		}
	}
	return append(tasks, c.program.task(messages.GlobalHooks, messages.AwaitSynchronization{}, cause))
}

// requestReload queues 'reload all modules': at the tail of main, or, while one is in
// progress, in place of its pending steps (F4, F10), unless that has happened too often
// (restarts.go). One that waits is enough (F9).
func (c *converge) requestReload(ctx actor.Context, cause messages.Cause) {
	next := requested
	switch c.phase {
	case starting, requested, overtaken:
		return
	case created:
		next = starting
	case reloading:
		if !c.postpones(ctx, cause) {
			c.restart(ctx, cause)
		}
		return
	}
	c.program.enqueue(ctx, false, c.program.task(messages.Converge, messages.ReloadModules{Cause: cause}, cause))
	c.become(next)
}

// restart replaces what is left of the reload in progress by the next one.
func (c *converge) restart(ctx actor.Context, cause messages.Cause) {
	c.log.Info("reload of all modules starts again", "cause", cause)
	ctx.Send(c.program.PID(queuePath+messages.MainQueue), messages.DropTasks{Reload: c.reload})
	ctx.Send(c.program.PID(globalPath), messages.DropTasks{Reload: c.reload})
	c.program.enqueue(ctx, true, c.program.task(messages.Converge, messages.ReloadModules{Cause: cause}, cause))
	c.restarts.count++
	c.restarts.postponed = nil // it is the next one
	c.program.Metrics.Converge.Restarted(cause)
	c.become(overtaken)
}

// job makes what a run of converge needs.
func (c *converge) job(t messages.Task) work.ReloadJob {
	return work.ReloadJob{Job: work.Job{Shared: c.program.runs, Owner: messages.Converge, Task: t, Log: c.log}}
}

func (c *converge) execute(ctx actor.Context, t messages.Task) {
	j := c.job(t)
	switch work := t.Work.(type) {
	case messages.ReloadModules:
		c.beginReload(ctx, work.Cause)
		refuse(ctx, t) // it is done: its steps are queued before it
	case messages.DiscoverModules:
		c.start(ctx, t, func(run *supervisor.Run) (any, error) { return j.Discover(run) }, func(ctx actor.Context, result any) { c.discovered(ctx, t, result) })
	case messages.RunModules:
		c.start(ctx, t, func(run *supervisor.Run) (any, error) { return nil, j.RunModules(run, work.Names) }, nil)
	case messages.PurgeRelease:
		if !c.purges.begins(t, work.Release) {
			refuse(ctx, t)
			return
		}
		c.start(ctx, t, func(run *supervisor.Run) (any, error) { return j.Purge(run, work.Release) },
			func(_ actor.Context, purged any) {
				c.purges.ended(work.Release, purged == true)
				if purged == true {
					delete(c.deployed, work.Release)
				}
			})
	default:
		c.log.Error("task refused", "task", t.String(), "err", errNoSuchWork)
		refuse(ctx, t)
	}
}

func (c *converge) start(ctx actor.Context, t messages.Task, work func(*supervisor.Run) (any, error), succeeded func(actor.Context, any)) {
	queue := ctx.Sender()
	c.runs.Start(ctx, supervisor.Task{
		ID: t.ID, AllowFailure: t.AllowFailure,
		Work: func(run *supervisor.Run) (any, error) {
			if err := c.job(t).AwaitTurn(run); err != nil {
				return nil, err
			}
			return work(run)
		},
		Succeeded: func(ctx actor.Context, result any) {
			if succeeded != nil {
				succeeded(ctx, result)
			}
		},
		Failed: func(a supervisor.Attempt) {
			c.failed(t, a)
			if !a.Final {
				c.program.waits(t, a.Err)
			}
		},
		Ended: func(ctx actor.Context, outcome supervisor.Outcome) {
			if outcome == supervisor.Allowed {
				c.purges.later(ctx, t)
			}
			ended(ctx, t, queue)
			c.purges.answer(ctx)
		},
	})
}

func (c *converge) failed(t messages.Task, a supervisor.Attempt) {
	kind, about := t.Work.Describe()
	if _, ok := t.Work.(messages.DiscoverModules); ok {
		c.discoveryFailed(a.Err)
	}
	c.program.noticeFailure(t, a)
	c.log.Error("task failed, will retry", "task", strings.TrimSpace(kind+" "+about), "queue", t.Queue, "attempt", a.Number, "in", a.In, "err", a.Err)
}

// beginReload puts beforeAll hooks and the discovery at the head of main (G3, G4, F5).
func (c *converge) beginReload(ctx actor.Context, cause messages.Cause) {
	c.become(reloading)
	c.cause = cause
	c.reload++
	c.began = time.Now()
	if c.reload > 1 {
		c.span.End(nil) // it was overtaken, or is over
		c.span = c.program.ConvergeSpan(c.reload, cause)
	}
	var tasks []messages.Task
	for _, hook := range hooks.ByOrder(c.globalHooks, hooks.BeforeAll) {
		tasks = append(tasks, c.program.task(messages.GlobalHooks, work.OrderWork(hook, hooks.BeforeAll), cause))
	}
	tasks = append(tasks, c.program.task(messages.Converge, messages.DiscoverModules{}, cause))
	for i := range tasks {
		tasks[i].Reload = c.reload
	}
	c.enqueue(ctx, true, tasks)
}

// enqueue queues tasks as parts of the reload in progress.
func (c *converge) enqueue(ctx actor.Context, head bool, tasks []messages.Task) {
	for i := range tasks {
		tasks[i].Trace = c.span.Name()
	}
	c.program.enqueue(ctx, head, tasks...)
}

// discovered turns the result of a discovery into tasks (E8), unless the reload was
// overtaken by a newer one, which discovers again (F10).
func (c *converge) discovered(ctx actor.Context, t messages.Task, result any) {
	defer c.explainOff()
	d, _ := result.(work.Discovery)
	gone := c.forgetRemoved(ctx, d.Tree)
	c.useTree(d.Tree)
	c.discoveryFails = ""
	defer c.listProblems()
	if d.List {
		c.listed = true
		for _, name := range d.Releases {
			c.deployed[name] = true
		}
		for _, name := range d.Others { // of a module that never adopted it, and is gone
			delete(c.deployed, name)
		}
		if len(d.Others) > 0 && !slices.Equal(d.Others, c.others) {
			c.log.Info("releases that no addon-operator has installed are left alone", "releases", d.Others)
		}
		c.others = d.Others
	}
	maps.DeleteFunc(c.unused, func(name string, _ []string) bool { return !slices.Contains(d.Enabled, name) })
	maps.Copy(c.unused, d.Unused)
	if d.GlobalChanged {
		c.exchangeGlobal(ctx, d)
	}
	if c.phase == overtaken {
		return
	}
	steps := c.steps(ctx, d.Enabled)
	c.logSteps(steps, d, gone)
	c.enabled, c.verdicts, c.discoveredIn = d.Enabled, d.Verdicts, t.Reload
	c.program.enabled.Store(&d.Enabled)
	ctx.Send(c.program.PID(configPath), scriptsAnswered{decide.Answers(d.Verdicts)})
	c.tellMaintenance(ctx, c.maintenance)
	for _, m := range d.Tree.Modules {
		if !slices.Contains(steps.Run, m.Name) {
			continue
		}
		c.deployed[m.Name] = true
		ctx.Send(c.program.owner(m.Name), messages.EnableModule{CRDsDue: slices.Contains(d.CRDsDue, m.Name)})
		if !decide.SwitchedOn(m, c.dynamic, c.config).Enabled { // by a hook, since; its reload is on the way
			ctx.Send(c.program.owner(m.Name), messages.SuspendModule{})
		}
	}
	for _, name := range steps.Delete {
		ctx.Send(c.program.owner(name), messages.SuspendModule{})
	}
	for _, m := range d.Tree.Modules {
		if slices.Contains(steps.Keep, m.Name) {
			ctx.Send(c.program.owner(m.Name), retireModule{})
		}
	}
	afterAll := hooks.ByOrder(c.globalHooks, hooks.AfterAll)
	c.enqueue(ctx, true, c.program.reloadTasks(steps, d.Tree.Modules, t.Reload, afterAll, c.cause))
}

// forgetRemoved ends what modules do whose directories are gone; their releases are
// purged without hooks (X31).
func (c *converge) forgetRemoved(ctx actor.Context, next *addons.Tree) (gone []string) {
	for _, m := range c.tree.Modules {
		if !slices.ContainsFunc(next.Modules, func(n addons.Module) bool { return n.Name == m.Name }) {
			gone = append(gone, m.Name)
			c.removed[m.Name] = true
			ctx.Send(c.program.owner(m.Name), forgetModule{})
		}
	}
	for _, m := range next.Modules {
		delete(c.removed, m.Name)
	}
	return gone
}

// forgetModule notifies a module actor that its directory is gone.
type forgetModule struct{}

func (c *converge) logSteps(s decide.Steps, d work.Discovery, gone []string) {
	log := c.log
	if len(gone) > 0 {
		log = log.With("removed", gone)
	}
	if len(s.Keep) > 0 {
		log = log.With("keep", s.Keep)
	}
	if len(s.Held) > 0 {
		log = log.With("held", s.Held)
	}
	off := c.listOff(d)
	if len(off) > 0 {
		log = log.With("off", off)
	}
	news := !slices.Equal(off, c.told)
	c.told = off
	if slices.Equal(d.Enabled, c.enabled) && len(s.Delete)+len(s.Purge) == 0 && c.ready && !news {
		log.Debug("modules discovered", "run", s.Run)
		return
	}
	log.Info("modules discovered", "run", s.Run, "delete", s.Delete, "purge", s.Purge)
}

// finished ends a reload, and the first converge (G8), unless it was overtaken by a newer
// one at its last step: what that is for has not been seen to yet (F10).
func (c *converge) finished(ctx actor.Context, msg messages.ConvergeFinished) {
	if msg.Reload != c.reload || c.phase == overtaken {
		return
	}
	c.become(idle)
	c.program.changed.note("") // modules that are gone, and requests, have waited
	c.span.End(nil)
	c.program.Metrics.Converge.Ended(c.cause, c.began)
	log, text := c.log, "converged"
	if held := c.purges.Held; len(held) > 0 {
		log, text = log.With("held", held), "converged, but a purge is held back"
	}
	log.Info(text, "modules", len(c.enabled), "cause", c.cause, "took", time.Since(c.began).Round(time.Millisecond))
	if !c.ready {
		ctx.Send(c.program.PID(schedulePath), messages.Converged{})
		ctx.Send(c.program.PID(monitorsPath), dropWarm{})
		c.ready = true
	}
	c.program.tell(ctx, c.tree.Modules, messages.RememberValues{})
	ctx.Send(c.program.PID(globalPath), messages.RememberValues{})
	c.beginPostponed(ctx)
	if msg.GlobalChanged {
		c.reloadUnlooped(ctx, messages.By(messages.ByHook, "afterAll hooks changed global values", c.cause).In(c.span.Name()))
	}
}

// configChanged reacts to an edit (G16). Modules that were just switched off are stopped at once, so
// that a module which keeps failing does not delay the reload that deletes it (E11, F8).
func (c *converge) configChanged(ctx actor.Context, msg messages.ConfigChanged) {
	c.config = msg.Flags
	c.configured = msg.Maintenance
	thawed, reload := c.maintenanceChanged(ctx)
	cause := messages.Cause{Activation: messages.ByConfigMap, Detail: "resourceVersion " + msg.Revision}
	if msg.FlagsChanged {
		c.switchModules(ctx)
	}
	c.program.tell(ctx, c.tree.Modules, messages.RetryNow{})
	ctx.Send(c.program.PID(globalPath), messages.RetryNow{})
	c.runs.RetryNow()
	switch {
	case !c.phase.begun():
		c.log.Info("config values changed before the first reload: they are used by it", "cause", cause)
	case msg.Global || msg.FlagsChanged || reload:
		for _, name := range msg.Modules { // the reload may have to wait for a run that only the script can end
			if _, _, ok := c.askable(name); ok {
				c.asks.add(sectionChanged{name, cause, false}) // the reload runs it
			}
		}
		c.requestReload(ctx, cause)
	default:
		run := c.sectionsChanged(msg.Modules, cause)
		for _, name := range thawed {
			if !c.asks.isDue(name) { // else its script decides whether it runs
				run = append(run, name)
			}
		}
		c.runModules(ctx, run, cause)
		c.looks.due = c.looks.due || c.program.Disk != nil && c.tree.Stale() // what did not fit may fit now
	}
}

// switchModules suspends what the flags switch off and resumes what they switch on.
func (c *converge) switchModules(ctx actor.Context) {
	c.explainOff()
	for _, m := range c.tree.Modules {
		if decide.SwitchedOn(m, c.dynamic, c.config).Enabled && !c.saysNo(m) {
			ctx.Send(c.program.owner(m.Name), messages.ResumeModule{})
		} else {
			ctx.Send(c.program.owner(m.Name), messages.SuspendModule{})
		}
	}
}

// runModules queues a run for those of the modules that are enabled (G16).
func (c *converge) runModules(ctx actor.Context, names []string, cause messages.Cause) {
	for _, name := range c.enabled { // in the order of modules
		if slices.Contains(names, name) {
			c.program.enqueue(ctx, false, c.program.task(name, messages.RunModule{}, cause))
		}
	}
}

// HandleFailure implements actor.SupervisorStrategy; a failure is no message, so the
// status is published here.
func (c *converge) HandleFailure(system *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, stats *actor.RestartStatistics, reason, message any) {
	c.runs.HandleFailure(system, sup, child, stats, reason, message)
	c.publish()
}

func (c *converge) publish() {
	s := view.ConvergeStatus{Phase: c.phase.shown(), Ready: c.ready, Reload: c.reload, Enabled: c.enabled, HeldPurge: c.purges.held(), Off: c.off, On: c.on, Problems: c.problems}
	if next := c.restarts.postponed; next != nil {
		s.Postponed = next.String()
	}
	c.program.Inspector.Publish(c.program.PID(convergePath), s)
}
