package actors

import (
	"context"
	"fmt"
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
	"addon-operator/values"
)

// converge owns 'reload all modules' (seed 001; steps 3 to 8 of seed 002): it puts the steps into
// the main queue, decides which modules are enabled, and knows whether the first converge is over,
// which is readiness. Its state is in its parts; here is what each message leads to.
type converge struct {
	// runs are those of all parts: tasks of the reload, enabled scripts, purges.
	runs    *supervisor.Runs
	program *program
	log     *slog.Logger
	ctx     context.Context // ends with the program

	catalog *catalog
	reloads *reloads
	// group are the modules of the RunModules task in progress.
	group []string
}

// New makes the actor.
func newConverge(ctx context.Context, p *program, b initialConverge) actor.Actor {
	return assembled(ctx, p, newCatalog(p, b), &reloads{program: p, log: p.Log, phase: created})
}

// assembled makes a converge of its parts. Tests pass parts in a state that only many messages
// would reach.
func assembled(ctx context.Context, p *program, known *catalog, all *reloads) *converge {
	runs := supervisor.NewRuns(p.System, p.Log)
	c := &converge{runs: runs, program: p, log: p.Log, ctx: ctx, catalog: known, reloads: all}
	return c
}

// Receive implements actor.Actor.
func (c *converge) Receive(ctx actor.Context) {
	if c.runs.Receive(ctx) { // a run has ended or is to be restarted
		c.publish()
		return
	}
	if c.answer(ctx) {
		return
	}
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		c.catalog.explainOff()
		c.catalog.listProblems()
		c.watch(ctx)
		c.startUp(ctx)
	case *actor.Stopping:
		c.reloads.span.End(nil)
	case messages.RequestReload:
		if msg.Cause.Activation == messages.ByDirectory { // the module has forgotten itself
			clear(c.catalog.knows)
		}
		c.reloads.requestUnlooped(ctx, msg.Cause)
	case messages.ConfirmPurge:
		c.confirmPurge(ctx, msg.Value)
	case delayedReload:
		c.reloads.delayed = false
		c.reloads.request(ctx, msg.cause)
	case messages.ExecuteTask:
		c.execute(ctx, msg.Task)
	case diskChanged:
		c.diskChanged(ctx, msg.what)
	case messages.ConfigChanged:
		c.configChanged(ctx, msg)
	case messages.SuspensionChanged:
		c.suspensionChanged(ctx, msg)
	case messages.SectionChanged:
		c.sectionChanged(ctx, msg)
	case messages.ConfigFlagsSaved:
		c.catalog.config = msg.Flags
		c.switchModules(ctx)
	case messages.SetDynamicFlags:
		c.catalog.dynamic, c.catalog.dynamicBy = msg.Flags, msg.By
		c.switchModules(ctx)
	case messages.ModuleDeleted:
		delete(c.catalog.Deployed, msg.Name)
	case messages.EndAttempts: // of a discovery, a purge, or the modules of a group
		c.runs.LastAttempt(ctx, msg.ID)
		for _, name := range c.group {
			ctx.Send(c.program.Owner(name), msg)
		}
	case messages.RetryNow:
		c.runs.RetryNow()
	default:
		unhandled(ctx, c.log)
	}
	c.publish()
}

// answer handles what does not change what is published, and reports whether the message was such a
// one.
func (c *converge) answer(ctx actor.Context) bool {
	switch msg := ctx.Message().(type) {
	case getDiscovery:
		ctx.Respond(c.catalog.discovery())
	case mayPurge:
		ctx.Respond(c.mayPurge(msg.Release))
	default:
		return false
	}
	return true
}

// reloadJob makes what a run of converge needs. It has no Known: converge hands over nothing, its
// runs ask for a Discovery.
func reloadJob(p *program, t messages.Task) ReloadJob {
	return ReloadJob{Job: Job{Shared: p.Runs, Owner: messages.Converge, Task: t, Log: p.Log}}
}

// execute begins a task of converge. ReloadModules is the discovery itself, or it is done at once: then begin has put
// beforeAll hooks and the discovery before all that waits (F5).
func (c *converge) execute(ctx actor.Context, t messages.Task) {
	j := reloadJob(c.program, t)
	switch w := t.Work.(type) {
	case messages.ReloadModules:
		if discovery := c.reloads.begin(ctx, c.catalog.globalHooks, t); discovery != nil {
			c.discover(ctx, *discovery)
			return
		}
		refuse(ctx, t) // it is done
	case messages.FinishReload:
		c.finished(ctx, t.Reload)
		refuse(ctx, t) // it is done
	case messages.DiscoverModules:
		c.discover(ctx, t)
	case messages.RunModules:
		c.group = w.Names
		c.start(ctx, t, supervisor.Task{
			Work:  func(run *supervisor.Run) (any, error) { return nil, j.RunModules(run, w.Names) },
			Ended: func(actor.Context, supervisor.Outcome) { c.group = nil },
		})
	case messages.PurgeRelease:
		c.start(ctx, t, supervisor.Task{
			Work: func(run *supervisor.Run) (any, error) { return j.Purge(run, w.Release) },
			Succeeded: func(_ actor.Context, purged any) {
				if purged == true {
					delete(c.catalog.Purges.Allowed, w.Release)
					delete(c.catalog.Deployed, w.Release)
				}
			},
		})
	default:
		c.log.Error("task refused", "task", t.String(), "err", errNoSuchWork)
		refuse(ctx, t)
	}
}

// discover begins a discovery: that of a reload, or one that only asks enabled scripts. What it begins with is handed
// over before each attempt, because flags may have changed since the last one.
func (c *converge) discover(ctx actor.Context, t messages.Task) {
	var from discovery
	j := reloadJob(c.program, t)
	task := supervisor.Task{
		Begins:    func() { from = c.catalog.discovery() },
		Work:      func(run *supervisor.Run) (any, error) { return j.Discover(run, from) },
		Succeeded: func(ctx actor.Context, result any) { c.discovered(ctx, t, result) },
	}
	if w, _ := t.Work.(messages.DiscoverModules); len(w.Modules) > 0 {
		task.Work = func(run *supervisor.Run) (any, error) { return j.AskScripts(run, from) }
		task.Succeeded = func(ctx actor.Context, result any) { c.scriptsAsked(ctx, t, w.Modules, result) }
	}
	c.start(ctx, t, task)
}

// start gives a task to a run, like ownTasks.start for tasks of owners. The end is reported in Ended,
// so that it happens once, however the task ends.
func (c *converge) start(ctx actor.Context, t messages.Task, task supervisor.Task) {
	queue := ctx.Sender()
	task.ID, task.AllowFailure = t.ID, t.AllowFailure
	task.Failed = func(a supervisor.Attempt) {
		c.failed(t, a)
		if !a.Final {
			c.program.Send(queue, messages.TaskFailed{ID: t.ID})
		}
	}
	ended := task.Ended
	task.Ended = func(ctx actor.Context, outcome supervisor.Outcome) {
		if ended != nil {
			ended(ctx, outcome)
		}
		taskEnded(ctx, t, queue)
	}
	c.runs.Start(ctx, task)
}

// failed is called after each failed attempt. It reports to the log and, when the failure lasts, as
// an Event; pages show why a discovery fails.
func (c *converge) failed(t messages.Task, a supervisor.Attempt) {
	if _, ok := t.Work.(messages.DiscoverModules); ok {
		c.catalog.discoveryFailed(a.Err)
	}
	c.program.NoticeFailure(t, a)
	if a.Final {
		c.log.Error("task failed; the next reload of all modules tries it again", "task", t.What(), "err", a.Err)
		return
	}
	c.log.Error("task failed, will retry", "task", t.What(), "queue", t.Queue, "attempt", a.Number, "in", a.In, "err", a.Err)
}

// scriptsAsked ends a discovery that is no step of a reload. A module that its script switches off is suspended at once,
// as by a flag, and a reload follows. If the answers are the same, the modules run whose sections have changed.
func (c *converge) scriptsAsked(ctx actor.Context, t messages.Task, modules []string, result any) {
	d, _ := result.(discovery)
	if c.reloads.discovers() {
		return // a reload asks them after this
	}
	before := c.catalog.Enabled
	c.catalog.Verdicts = d.Verdicts
	c.catalog.explainOff()
	if slices.Equal(d.Enabled, before) {
		c.catalog.run(ctx, modules, t.Cause)
		return
	}
	var changed []string
	for _, m := range c.catalog.Tree.Modules {
		on := slices.Contains(d.Enabled, m.Name)
		if on == slices.Contains(before, m.Name) {
			continue
		}
		changed = append(changed, fmt.Sprintf("%s returned %t", m.Name, on))
		if !on {
			c.set(ctx, m, false)
		}
	}
	c.log.Info("enabled scripts returned different answers after a change of values", "modules", changed, "cause", t.Cause)
	c.reloads.requestUnlooped(ctx, messages.By(messages.ByScript, messages.Few(3, changed), t.Cause))
}

// sectionChanged has the enabled script of a module asked whose section hooks have changed. A change that is part of a
// loop waits first.
func (c *converge) sectionChanged(ctx actor.Context, msg messages.SectionChanged) {
	t := c.program.NewTask(messages.Converge, messages.DiscoverModules{Modules: []string{msg.Module}}, msg.Cause)
	if d := loopDelay(msg.Cause); d > 0 {
		c.program.Looping(c.log.With("module", msg.Module), msg.Cause, d)
		time.AfterFunc(d, func() { c.program.Enqueue(c.program, false, t) }) // late, it is one discovery too many
		return
	}
	c.program.Enqueue(ctx, false, t)
}

// discovered turns the result of a discovery into tasks (E8), unless a newer reload has overtaken
// this one and discovers again (F10). What was read from disk is put in force in either case. The
// order matters: the lists of enabled modules are published before any module receives
// EnableModule, because its run gets them with the first hand-over.
func (c *converge) discovered(ctx actor.Context, t messages.Task, result any) {
	defer c.catalog.explainOff() // after enabled and verdicts are set, and also when overtaken
	d, _ := result.(discovery)
	gone := c.catalog.discovered(d)
	defer c.catalog.listProblems()
	for _, name := range gone { // their releases are purged without hooks (X31)
		c.catalog.forget(ctx, name)
	}
	if d.GlobalChanged {
		c.exchangeGlobal(ctx, d)
	}
	if c.reloads.phase == overtaken { // also by exchangeGlobal, a line before
		return
	}
	steps := c.steps(ctx, d.Enabled, d.Verdicts)
	c.logSteps(steps, d, gone)
	c.catalog.Enabled, c.catalog.Verdicts, c.reloads.discoveredIn, c.reloads.discovery = d.Enabled, d.Verdicts, t.Reload, d
	c.program.Enabled.Store(&d.Enabled)
	if answers := plan.Answers(d.Verdicts); c.catalog.answers == nil || !maps.Equal(answers, c.catalog.answers) {
		c.catalog.answers = answers
		ctx.Send(c.program.PID(configPath), messages.ScriptsAnswered{Scripts: answers})
	}
	c.tellMaintenance(ctx)
	for _, m := range d.Tree.Modules {
		if !slices.Contains(steps.Run, m.Name) {
			continue
		}
		c.catalog.Deployed[m.Name], c.catalog.Ran[m.Name] = true, true
		c.catalog.enable(ctx, m.Name, slices.Contains(d.CRDsDue, m.Name))
		if !c.catalog.switchedOn(m) { // by a hook, since; its reload is on the way
			c.set(ctx, m, false)
		}
	}
	for _, m := range d.Tree.Modules { // Keep also has releases without a module, which have no actor
		switch {
		case slices.Contains(steps.Delete, m.Name): // now, and not at their turn: what runs of them must end
			c.set(ctx, m, false)
		case slices.Contains(steps.Keep, m.Name):
			c.catalog.forget(ctx, m.Name)
		}
	}
	afterAll := hooks.ByOrder(c.catalog.globalHooks, hooks.AfterAll)
	c.reloads.enqueue(ctx, true, reloadTasks(c.program, steps, d.Tree.Modules, t.Reload, afterAll, c.reloads.cause))
}

// logSteps logs what a discovery leads to. Reloads are frequent where hooks cause them, so one that
// enables the same modules and removes nothing is logged at level debug, unless the reasons of
// modules that are off have changed.
func (c *converge) logSteps(s plan.Steps, d discovery, gone []string) {
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
	off := c.catalog.listOff(d)
	if len(off) > 0 {
		log = log.With("off", off)
	}
	news := !slices.Equal(off, c.catalog.told)
	c.catalog.told = off
	if slices.Equal(d.Enabled, c.catalog.Enabled) && len(s.Delete)+len(s.Purge) == 0 && c.reloads.ready && !news {
		log.Debug("modules discovered", "run", s.Run)
		return
	}
	log.Info("modules discovered", "run", s.Run, "delete", s.Delete, "purge", s.Purge)
}

// finished ends a reload, and with the first one the first converge (G8). A reload that was
// overtaken at its last step does not count: what the newer one is for has not been done yet (F10).
// Only from here on do schedules tick (C14).
func (c *converge) finished(ctx actor.Context, reload int) {
	if reload != c.reloads.number || c.reloads.phase == overtaken {
		return
	}
	next := c.reloads.ended()
	c.program.Changed.Note("") // modules that are gone, and requests, have waited
	c.reloads.span.End(nil)
	c.program.Metrics.reloadSeconds.WithLabelValues(activation(c.reloads.cause)).Add(seconds(c.reloads.began))
	c.program.Metrics.reloads.WithLabelValues(activation(c.reloads.cause)).Inc()
	log, text := c.log, "converged"
	if held := c.catalog.Purges.Held; len(held) > 0 {
		log, text = log.With("held", held), "converged, but a purge is held back"
	}
	log.Info(text, "modules", len(c.catalog.Enabled), "cause", c.reloads.cause, "took", time.Since(c.reloads.began).Round(time.Millisecond))
	if !c.reloads.ready { // at the end of the first converge
		ctx.Send(c.program.PID(schedulePath), messages.Converged{})
		c.reloads.ready = true
	}
	if c.reloads.become(next); next == idle && !c.reloads.delayed && c.globalChanged(c.reloads.discovery) {
		c.reloads.requestUnlooped(ctx, messages.By(messages.ByHook, "afterAll hooks changed global values", c.reloads.cause).In(c.reloads.span.Name()))
	}
}

// globalChanged reports whether afterAll hooks have changed what the discovery of a reload was made from (G8). All
// other changes of that ask for a reload, or trigger nothing (G18).
func (c *converge) globalChanged(from discovery) bool {
	if len(hooks.ByOrder(c.catalog.globalHooks, hooks.AfterAll)) == 0 {
		return false
	}
	return from.Global.Checksum() != c.program.Global.Load().Checksum() ||
		!maps.Equal(from.Dynamic, c.catalog.dynamic) || !maps.Equal(from.Config, c.catalog.config)
}

// configChanged reacts to an edit (G16). Modules that it switches off are stopped at once, so that
// one which keeps failing does not delay the reload that deletes it (E11, F8). Every failed task is
// retried at once: the edit may be the fix (F8).
func (c *converge) configChanged(ctx actor.Context, msg messages.ConfigChanged) {
	c.catalog.config = msg.Flags
	c.catalog.configured = msg.Maintenance
	thawed, reload := c.maintenanceChanged(ctx)
	cause := msg.Cause
	if msg.FlagsChanged {
		c.switchModules(ctx)
	}
	// Owners have received the new values before, and try again what has failed: config sends these first.
	c.runs.RetryNow()
	switch {
	case !c.reloads.phase.begun():
		c.log.Info("config values changed before the first reload, which uses them", "cause", cause)
	case msg.Global || msg.FlagsChanged || reload, c.program.Disk != nil && c.catalog.Tree.Stale():
		c.reloads.request(ctx, cause) // what did not fit the values may fit now
	default:
		scripted, run := c.catalog.scripted(msg.Modules)
		if len(scripted) > 0 { // they run afterwards
			c.program.Enqueue(ctx, false, c.program.NewTask(messages.Converge, messages.DiscoverModules{Modules: scripted}, cause))
		}
		thawed = slices.DeleteFunc(thawed, func(name string) bool { return slices.Contains(scripted, name) })
		c.catalog.run(ctx, append(run, thawed...), cause)
	}
}

// switchModules suspends the modules that flags switch off and resumes the others, unless their
// script has said no. Modules ignore what is no change for them.
func (c *converge) switchModules(ctx actor.Context) {
	c.catalog.explainOff()
	for _, m := range c.catalog.Tree.Modules {
		c.set(ctx, m, c.catalog.wanted(m))
	}
}

// HandleFailure implements actor.SupervisorStrategy; a failure is no message, so the
// status is published here.
func (c *converge) HandleFailure(system *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, stats *actor.RestartStatistics, reason, message any) {
	c.runs.HandleFailure(system, sup, child, stats, reason, message)
	c.publish()
}

// publish shows the state on pages, in metrics and to probes. Maps and lists in it are replaced by
// their owners and never changed, so that readers need no lock.
func (c *converge) publish() {
	s := view.ConvergeStatus{Phase: c.reloads.phase.shown(), Ready: c.reloads.ready, Reload: c.reloads.number, Enabled: c.catalog.Enabled, HeldPurge: c.catalog.heldPurge(), Off: c.catalog.off, On: c.catalog.on, Problems: c.catalog.problems}
	if next := c.reloads.postponed; next != nil {
		s.Postponed = next.String()
	}
	c.program.Inspector.Publish(c.program.PID(convergePath), s)
}

// What is on disk may be wrong in ways with which an operator starts all the same (J12): a second
// module of one name, a script without its x bit, a default that cannot be valid. converge, which
// knows the files, shows it with the module.

// shownProblems is how many problems of a module are shown; a schema may have a hundred.
const shownProblems = 10

// listProblems works out what is shown of the modules, and shows what is new as an Event, too. The map is not changed
// afterwards.
func (c *catalog) listProblems() {
	all := map[string][]string{}
	add := func(owner string, problems []string) {
		if len(problems) > 0 {
			all[owner] = shortened(problems, shownProblems)
		}
	}
	add(messages.GlobalHooks, c.globalProblems)
	for _, m := range c.Tree.Modules {
		add(m.Name, slices.Concat(m.Problems(), c.unused[m.Name]))
	}
	for _, owner := range slices.Sorted(maps.Keys(all)) {
		// An Event is for what has begun. What is over needs none, and the list shows what lasts.
		news := slices.DeleteFunc(slices.Clone(all[owner]), func(p string) bool { return slices.Contains(c.problems[owner], p) })
		if len(news) == 0 {
			continue
		}
		about := "global hooks"
		if owner != messages.GlobalHooks {
			about = "module " + owner
		}
		c.program.Notify(kube.Notice{Warning: true, Reason: "ModuleProblem", Message: about + ": " + strings.Join(news, "; ")})
	}
	c.problems = all
	c.program.Changed.Note("")
}

// tellMaintenance sends modules their modes, if they are others than they know.
//
// A module under maintenance (H15) continues with its hooks, but its release is left alone: its
// runs leave Helm out, the healer does not know it, and when it is disabled, its hooks end and the
// release stays until maintenance is over. Converge alone knows both files and ConfigMap and so is
// the only sender; a run that is about to use Helm knows the mode from its module.
func (c *converge) tellMaintenance(ctx actor.Context) {
	for _, m := range c.catalog.Tree.Modules {
		if plan.Maintained(m, c.catalog.Maintenance) != c.catalog.modes[m.Name] {
			c.set(ctx, m, c.catalog.wanted(m))
		}
	}
}

// set tells a module what is wanted of it.
func (c *converge) set(ctx actor.Context, m addons.Module, on bool) {
	mode := plan.Maintained(m, c.catalog.Maintenance)
	c.catalog.modes[m.Name] = mode
	if !on {
		delete(c.catalog.knows, m.Name)
	}
	ctx.Send(c.program.Owner(m.Name), messages.SetModule{On: on, Maintenance: mode})
}

// maintenanceChanged sends the modes if they have changed. It returns the modules that must run
// because maintenance is over, and whether a reload is due, for deletes and purges that have
// waited.
func (c *converge) maintenanceChanged(ctx actor.Context) (run []string, reload bool) {
	before, now := c.catalog.Maintenance, plan.WithSuspended(c.catalog.configured, c.catalog.suspended)
	if maps.Equal(before, now) {
		return nil, false
	}
	c.catalog.Maintenance = now
	c.tellMaintenance(ctx)
	return c.catalog.MaintenanceEnds(before)
}

// suspensionChanged suspends modules, and runs those that are resumed (H27).
func (c *converge) suspensionChanged(ctx actor.Context, msg messages.SuspensionChanged) {
	var resumed []string
	for _, name := range slices.Sorted(maps.Keys(c.catalog.suspended)) {
		if !msg.Names[name] {
			resumed = append(resumed, name)
		}
	}
	c.catalog.suspended = msg.Names
	_, reload := c.maintenanceChanged(ctx)
	c.switchModules(ctx) // those that go on are no longer suspended
	cause := messages.Cause{Activation: messages.ByHand, Detail: "spec.suspend of objects of kind Module"}
	switch {
	case !c.reloads.phase.begun(): // the first reload sees it
	case reload:
		c.reloads.request(ctx, cause)
	default:
		c.catalog.run(ctx, resumed, cause)
	}
}

// shownOff is how many modules that are off a line of the log names. Pages and commands show all.
const shownOff = 30

// listOff says in the order of modules which are off by a discovery, and why, for its line of the
// log (E16). It goes by the verdicts of the discovery; explainOff goes by the flags of now.
func (c *catalog) listOff(d discovery) []string {
	var off []string
	for _, m := range d.Tree.Modules {
		if !slices.Contains(d.Enabled, m.Name) {
			off = append(off, m.Name+": "+c.why(d.Verdicts[m.Name], m))
		}
	}
	return shortened(off, shownOff)
}

// shortened is a list, or its beginning and how many more there are.
func shortened(list []string, most int) []string {
	if more := len(list) - most; more > 0 {
		return append(slices.Clone(list[:most]), fmt.Sprintf("and %d more", more))
	}
	return list
}

// why says which rule has enabled or disabled a module, and which hook (E16). decide does not know
// hooks: converge receives their names with the flags.
func (c *catalog) why(v plan.Verdict, m addons.Module) string {
	if v.Source == plan.ByHookFlag {
		v.Reason = c.dynamicBy[values.FlagKey(m.Key)]
	}
	return v.Why(m)
}

// explainOff works out why modules are off: by the flags as they are now, and by what the last
// discovery has found. The map is not changed afterwards.
func (c *catalog) explainOff() {
	off, on := map[string]string{}, map[string]string{}
	for _, m := range c.Tree.Modules {
		flags, known := plan.SwitchedOn(m, c.dynamic, c.config), c.Verdicts[m.Name]
		switch { // what a person must change first comes first: without a flag no script is asked
		case !flags.Enabled:
			if off[m.Name] = c.why(flags, m); flags.Source == plan.ByDefault {
				off[m.Name] += fmt.Sprintf("; 'addon-operator values set %s true' enables it", values.FlagKey(m.Key))
			}
		case slices.Contains(c.Enabled, m.Name) && !c.saysNo(m):
			on[m.Name] = c.why(c.Verdicts[m.Name], m)
		case c.discoveryFails != "":
			off[m.Name] = c.discoveryFails
		case c.saysNo(m):
			off[m.Name] = c.why(known, m)
		default:
			off[m.Name] = view.Undecided(flags.Source)
		}
	}
	for name := range c.removed {
		off[name] = "its directory is gone"
	}
	c.off, c.on = off, on
	c.program.Changed.Note("")
}

// discoveryFailed remembers why no module can be enabled for now. Those that are enabled stay so.
func (c *catalog) discoveryFailed(err error) {
	c.program.Metrics.DiscoveryFailed.Inc()
	c.discoveryFails = view.DiscoveryFails(err)
	c.explainOff()
}
