package actors

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/decide"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// converge owns 'reload all modules' (seed 001; steps 3 to 8 of seed 002): it puts the
// steps into the main queue, finds out which modules are enabled, and knows whether the
// first converge is over, which is readiness.
//
//	starting -first reload begins-> reloading -FinishReload-> idle -ReloadModules-> reloading
type converge struct {
	*supervisor.Runs
	program *program
	log     *slog.Logger
	state   *convergeState

	ending   []string     // purges that are given up
	awaiting []*actor.PID // discoveries that wait for their end

	awaitAsks []*actor.PID // discoveries that wait until no other run asks an enabled script
}

// convergeState survives a crash of the actor.
type convergeState struct {
	tree        *addons.Tree
	globalHooks []hooks.Hook
	config      map[string]bool   // flags in the ConfigMap
	dynamic     map[string]bool   // flags of global hooks
	dynamicBy   map[string]string // which hook has set each
	maintenance map[string]string // modes in the ConfigMap
	enabled     []string          // by the last discovery
	verdicts    map[string]decide.Verdict
	// discoveryFails says why the discovery in progress has failed; "" when it has not. off says of
	// each module that is off why, told what the log has of them.
	discoveryFails string
	off            map[string]string
	told           []string
	// globalProblems, and unused files of the modules that are enabled; problems is what is shown of all.
	globalProblems   []string
	unused, problems map[string][]string
	// deployed are modules and releases that have something in the cluster (E9).
	deployed map[string]bool
	removed  map[string]bool   // modules whose directories are gone; their actors live on
	purging  map[string]string // releases whose purge has failed, and the task in its own queue that tries again
	others   []string          // releases that are left alone, as the log has them
	purges   decide.Purges
	reminded int // how often a purge that is held back was reported
	listed   bool
	reload   int // number of the last reload that has begun
	// discovered is the number of the last reload whose discovery counts.
	discovered int
	asks       asks
	waiting    bool // a ReloadModules task waits in the main queue
	running    bool // steps of the last reload are in the main queue
	restarts   restarts
	began      time.Time
	ready      bool // the first converge is over
	cause      messages.Cause
	span       span // of the start-up and the reload in progress
}

func newConverge(p *program, b *boot) actor.Producer {
	state := &convergeState{tree: b.tree, globalHooks: b.globalHooks, config: b.config.flags, maintenance: b.config.maintenance, deployed: map[string]bool{}, removed: map[string]bool{}, purging: map[string]string{}, globalProblems: b.problems, unused: map[string][]string{}}
	log := p.Log
	return func() actor.Actor {
		return &converge{Runs: supervisor.NewRuns(p.System, log), program: p, log: log, state: state}
	}
}

// Receive implements actor.Actor.
func (c *converge) Receive(ctx actor.Context) {
	if c.Runs.Receive(ctx) {
		c.askScripts(ctx)
		c.publish()
		return
	}
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		c.explainOff()
		c.listProblems()
	case *actor.Stopping:
		c.state.span.end(nil)
	case messages.StartUp:
		c.startUp(ctx)
	case messages.ReloadModules:
		c.reloadUnlooped(ctx, msg.Cause)
	case confirmPurge:
		c.confirmPurge(ctx, msg.value)
	case remindHeld:
		if msg.told == c.state.reminded {
			c.noticeHeld(ctx)
		}
	case delayedReload:
		c.requestReload(ctx, msg.cause)
	case messages.ExecuteTask:
		c.execute(ctx, msg.Task)
	case getDiscovery:
		ctx.Respond(discovery{tree: c.state.tree, config: c.state.config, dynamic: c.state.dynamic, maintenance: c.state.maintenance, list: !c.state.listed, before: c.state.enabled, verdicts: c.state.verdicts, deployed: maps.Clone(c.state.deployed), purges: c.state.purges.Clone()})
		return
	case endPurges:
		c.endPurges(ctx, msg.modules)
		return
	case endAsks:
		c.endAsks(ctx)
		return
	case mayPurge:
		ctx.Respond(c.mayPurge(msg.release))
		return
	case messages.ConfigChanged:
		c.configChanged(ctx, msg)
	case sectionChanged:
		c.state.asks.add(msg)
	case askAgain:
		if msg.reload == c.state.reload { // else a discovery asks, or has asked
			c.state.asks.add(msg.changed)
		}
	case messages.ConfigFlagsSaved:
		c.state.config = msg.Flags
		c.switchModules(ctx)
	case messages.SetDynamicFlags:
		c.state.dynamic, c.state.dynamicBy = msg.Flags, msg.By
		c.switchModules(ctx)
	case messages.ModuleDeleted:
		delete(c.state.deployed, msg.Name)
	case messages.ConvergeFinished:
		c.finished(ctx, msg)
	case messages.RetryNow:
		c.RetryNow()
	default:
		unhandled(ctx, c.log)
	}
	c.askScripts(ctx)
	c.publish()
}

// startUp queues steps 1 and 2 and the first reload.
func (c *converge) startUp(ctx actor.Context) {
	cause := messages.Cause{Activation: messages.Startup}
	c.state.span = c.program.convergeSpan(1, cause)
	c.log.Info("start-up begins", "globalHooks", len(c.state.globalHooks), "modules", len(c.state.tree.Modules))
	c.tellMaintenance(ctx, c.state.maintenance) // who is thawed during the first discovery must know what it left out
	var tasks []messages.Task
	for _, hook := range hooks.ByOrder(c.state.globalHooks, hooks.OnStartup) {
		tasks = append(tasks, c.program.task(messages.GlobalHooks, orderWork(hook, hooks.OnStartup), cause))
	}
	for _, hook := range c.state.globalHooks { // alphabetical, as they were found
		for _, w := range synchronizations(hook) {
			if hook.Config.Kubernetes[w.Bindings[0]].Queue == hooks.MainQueue {
				tasks = append(tasks, c.program.task(messages.GlobalHooks, w, cause))
			}
		}
	}
	tasks = append(tasks, c.program.task(messages.GlobalHooks, messages.AwaitSynchronization{}, cause))
	c.enqueue(ctx, false, tasks)
	c.requestReload(ctx, cause)
}

// requestReload queues 'reload all modules': at the tail of main, or, while one is in
// progress, in place of its pending steps (F4, F10), unless that has happened too often
// (restarts.go). One that waits is enough (F9).
func (c *converge) requestReload(ctx actor.Context, cause messages.Cause) {
	if c.state.waiting {
		return
	}
	restart := c.state.running
	if restart && c.postpones(cause) {
		return
	}
	if restart {
		c.log.Info("reload of all modules starts again", "cause", cause)
		ctx.Send(c.program.PID(queuePath+messages.MainQueue), messages.DropTasks{Reload: c.state.reload})
	}
	work := messages.ReloadModules{Cause: cause}
	c.program.enqueue(ctx, restart, c.program.task(messages.Converge, work, cause))
	if restart {
		c.state.restarts.count++
		c.program.Metrics.Converge.Restarted(cause)
	}
	c.state.waiting = true
}

func (c *converge) execute(ctx actor.Context, t messages.Task) {
	j := reloadJob{job{program: c.program, owner: messages.Converge, task: t, log: c.log}}
	switch work := t.Work.(type) {
	case messages.ReloadModules:
		c.beginReload(ctx, work.Cause)
		refuse(ctx, t) // it is done: its steps are queued before it
	case messages.DiscoverModules:
		c.start(ctx, t, func(run *supervisor.Run) (any, error) { return j.discover(run) }, func(ctx actor.Context, result any) { c.discovered(ctx, t, result) })
	case messages.RunModules:
		c.start(ctx, t, func(run *supervisor.Run) (any, error) { return nil, j.runModules(run, work.Names) }, nil)
	case messages.PurgeRelease:
		again := t.Queue == purgeQueue
		if tried := c.state.purging[work.Release] != ""; tried != again {
			refuse(ctx, t) // two uninstalls of one release would meet, or it was given up
			return
		}
		if again {
			c.state.purging[work.Release] = t.ID
		}
		c.start(ctx, t, func(run *supervisor.Run) (any, error) { return j.purge(run, work.Release) },
			func(_ actor.Context, purged any) {
				delete(c.state.purging, work.Release)
				if purged == true {
					delete(c.state.deployed, work.Release)
					delete(c.state.purges.Allowed, work.Release)
				}
			})
	default:
		c.log.Error("task refused", "task", t.String(), "err", errNoSuchWork)
		refuse(ctx, t)
	}
}

func (c *converge) start(ctx actor.Context, t messages.Task, work func(*supervisor.Run) (any, error), succeeded func(actor.Context, any)) {
	queue := ctx.Sender()
	c.Runs.Start(ctx, supervisor.Task{
		ID: t.ID, AllowFailure: t.AllowFailure, Work: work,
		Succeeded: func(ctx actor.Context, result any) {
			if succeeded != nil {
				succeeded(ctx, result)
			}
		},
		Failed: func(a supervisor.Attempt) { c.failed(t, a) },
		Ended: func(ctx actor.Context, outcome supervisor.Outcome) {
			if outcome == supervisor.Allowed {
				c.purgeLater(ctx, t)
			}
			ended(ctx, t, queue)
			c.answerPurgesEnded(ctx)
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
	c.state.waiting, c.state.running, c.state.cause = false, true, cause
	c.state.reload++
	c.state.began = time.Now()
	if c.state.reload > 1 {
		c.state.span.end(nil) // it was overtaken, or is over
		c.state.span = c.program.convergeSpan(c.state.reload, cause)
	}
	var tasks []messages.Task
	for _, hook := range hooks.ByOrder(c.state.globalHooks, hooks.BeforeAll) {
		tasks = append(tasks, c.program.task(messages.GlobalHooks, orderWork(hook, hooks.BeforeAll), cause))
	}
	tasks = append(tasks, c.program.task(messages.Converge, messages.DiscoverModules{}, cause))
	for i := range tasks {
		tasks[i].Reload = c.state.reload
	}
	c.enqueue(ctx, true, tasks)
}

// enqueue queues tasks as parts of the reload in progress.
func (c *converge) enqueue(ctx actor.Context, head bool, tasks []messages.Task) {
	for i := range tasks {
		tasks[i].Trace = c.state.span.name()
	}
	c.program.enqueue(ctx, head, tasks...)
}

// discovered turns the result of a discovery into tasks (E8), unless the reload was
// overtaken by a newer one, which discovers again (F10).
func (c *converge) discovered(ctx actor.Context, t messages.Task, result any) {
	defer c.explainOff()
	d, _ := result.(discovery)
	gone := c.forgetRemoved(ctx, d.tree)
	c.logNewWarnings(d.tree)
	c.state.tree, c.state.discoveryFails = d.tree, ""
	defer c.listProblems()
	if d.list {
		c.state.listed = true
		for _, name := range d.releases {
			c.state.deployed[name] = true
		}
		for _, name := range d.others { // of a module that never adopted it, and is gone
			delete(c.state.deployed, name)
		}
		if len(d.others) > 0 && !slices.Equal(d.others, c.state.others) {
			c.log.Info("releases that no addon-operator has installed are left alone", "releases", d.others)
		}
		c.state.others = d.others
	}
	if c.state.waiting {
		return
	}
	steps := c.steps(ctx, d.enabled)
	c.logSteps(steps, d, gone)
	c.state.enabled, c.state.verdicts, c.state.discovered = d.enabled, d.verdicts, t.Reload
	maps.DeleteFunc(c.state.unused, func(name string, _ []string) bool { return !slices.Contains(d.enabled, name) })
	maps.Copy(c.state.unused, d.unused)
	c.program.enabled.Store(&d.enabled)
	ctx.Send(c.program.PID(configPath), scriptsAnswered{decide.Answers(d.verdicts)})
	c.tellMaintenance(ctx, c.state.maintenance)
	for _, m := range d.tree.Modules {
		if !slices.Contains(steps.Run, m.Name) {
			continue
		}
		c.state.deployed[m.Name] = true
		ctx.Send(c.program.owner(m.Name), messages.EnableModule{})
		if !decide.SwitchedOn(m, c.state.dynamic, c.state.config).Enabled { // by a hook, since; its reload is on the way
			ctx.Send(c.program.owner(m.Name), messages.SuspendModule{})
		}
	}
	for _, name := range steps.Delete {
		ctx.Send(c.program.owner(name), messages.SuspendModule{})
	}
	for _, m := range d.tree.Modules {
		if slices.Contains(steps.Keep, m.Name) {
			ctx.Send(c.program.owner(m.Name), retireModule{})
		}
	}
	afterAll := hooks.ByOrder(c.state.globalHooks, hooks.AfterAll)
	c.enqueue(ctx, true, c.program.reloadTasks(steps, d.tree.Modules, t.Reload, afterAll, c.state.cause))
}

// forgetRemoved ends what modules do whose directories are gone; their releases are
// purged without hooks (X31).
func (c *converge) forgetRemoved(ctx actor.Context, next *addons.Tree) (gone []string) {
	for _, m := range c.state.tree.Modules {
		if !slices.ContainsFunc(next.Modules, func(n addons.Module) bool { return n.Name == m.Name }) {
			gone = append(gone, m.Name)
			c.state.removed[m.Name] = true
			ctx.Send(c.program.owner(m.Name), forgetModule{})
		}
	}
	for _, m := range next.Modules {
		delete(c.state.removed, m.Name)
	}
	return gone
}

// forgetModule notifies a module actor that its directory is gone.
type forgetModule struct{}

func (c *converge) logSteps(s decide.Steps, d discovery, gone []string) {
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
	news := !slices.Equal(off, c.state.told)
	c.state.told = off
	if slices.Equal(d.enabled, c.state.enabled) && len(s.Delete)+len(s.Purge) == 0 && c.state.ready && !news {
		log.Debug("modules discovered", "run", s.Run)
		return
	}
	log.Info("modules discovered", "run", s.Run, "delete", s.Delete, "purge", s.Purge)
}

// finished ends a reload, and the first converge (G8), unless it was overtaken by a newer
// one at its last step: what that is for has not been seen to yet (F10).
func (c *converge) finished(ctx actor.Context, msg messages.ConvergeFinished) {
	if msg.Reload != c.state.reload || c.state.waiting {
		return
	}
	c.state.running = false
	c.state.span.end(nil)
	c.program.Metrics.Converge.Ended(c.state.cause, c.state.began)
	log, text := c.log, "converged"
	if held := c.state.purges.Held; len(held) > 0 {
		log, text = log.With("held", held), "converged, but a purge is held back"
	}
	log.Info(text, "modules", len(c.state.enabled), "cause", c.state.cause, "took", time.Since(c.state.began).Round(time.Millisecond))
	if !c.state.ready {
		ctx.Send(c.program.PID(schedulePath), messages.Converged{})
		ctx.Send(c.program.PID(monitorsPath), dropWarm{})
		c.state.ready = true
	}
	c.program.tell(ctx, c.state.tree.Modules, messages.RememberValues{})
	ctx.Send(c.program.PID(globalPath), messages.RememberValues{})
	c.beginPostponed(ctx)
	if msg.GlobalChanged {
		c.reloadUnlooped(ctx, messages.By(messages.ByHook, "afterAll hooks changed global values", c.state.cause).In(c.state.span.name()))
	}
}

// configChanged is step 16. Modules that were just switched off are stopped at once, so
// that a module which keeps failing does not delay the reload that deletes it (E11, F8).
func (c *converge) configChanged(ctx actor.Context, msg messages.ConfigChanged) {
	c.state.config = msg.Flags
	thawed, reload := c.maintenanceChanged(ctx, msg.Maintenance)
	cause := messages.Cause{Activation: messages.ByConfigMap, Detail: "resourceVersion " + msg.Revision}
	if msg.FlagsChanged {
		c.switchModules(ctx)
	}
	c.program.tell(ctx, c.state.tree.Modules, messages.RetryNow{})
	ctx.Send(c.program.PID(globalPath), messages.RetryNow{})
	c.RetryNow()
	switch {
	case c.state.reload == 0:
		c.log.Info("config values changed before the first reload: they are used by it", "cause", cause)
	case msg.Global || msg.FlagsChanged || reload:
		for _, name := range msg.Modules { // the reload may have to wait for a run that only the script can end
			if _, _, ok := c.askable(name); ok {
				c.state.asks.add(sectionChanged{name, cause, false}) // the reload runs it
			}
		}
		c.requestReload(ctx, cause)
	default:
		run := c.sectionsChanged(msg.Modules, cause)
		for _, name := range thawed {
			if !c.state.asks.isDue(name) { // else its script decides whether it runs
				run = append(run, name)
			}
		}
		c.runModules(ctx, run, cause)
	}
	c.state.maintenance = msg.Maintenance
}

// switchModules suspends what the flags switch off and resumes what they switch on.
func (c *converge) switchModules(ctx actor.Context) {
	c.explainOff()
	for _, m := range c.state.tree.Modules {
		if decide.SwitchedOn(m, c.state.dynamic, c.state.config).Enabled && !c.saysNo(m) {
			ctx.Send(c.program.owner(m.Name), messages.ResumeModule{})
		} else {
			ctx.Send(c.program.owner(m.Name), messages.SuspendModule{})
		}
	}
}

// runModules queues a run for those of the modules that are enabled (G16).
func (c *converge) runModules(ctx actor.Context, names []string, cause messages.Cause) {
	for _, name := range c.state.enabled { // in the order of modules
		if slices.Contains(names, name) {
			c.program.enqueue(ctx, false, c.program.task(name, messages.RunModule{}, cause))
		}
	}
}

// HandleFailure implements actor.SupervisorStrategy; a failure is no message, so the
// status is published here.
func (c *converge) HandleFailure(system *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, stats *actor.RestartStatistics, reason, message any) {
	c.Runs.HandleFailure(system, sup, child, stats, reason, message)
	c.publish()
}

func (c *converge) publish() {
	s := view.ConvergeStatus{Phase: view.ConvergeIdle, Ready: c.state.ready, Reload: c.state.reload, Enabled: c.state.enabled, HeldPurge: c.heldPurge(), Off: c.state.off, Problems: c.state.problems}
	if next := c.state.restarts.postponed; next != nil {
		s.Postponed = next.String()
	}
	switch {
	case c.state.running || c.state.waiting && c.state.reload > 0:
		s.Phase = view.ConvergeReloading
	case c.state.reload == 0:
		s.Phase = view.ConvergeStarting
	}
	c.program.Inspector.Publish(c.program.PID(convergePath), s)
}
