package actors

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
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

// converge owns 'reload all modules' (seed 001; steps 3 to 8 of seed 002): it puts the steps into the main queue,
// decides which modules are enabled, and knows whether the first converge is over, which is readiness. Maps that are
// handed over in a discovery, or published, are replaced and never changed; all have names of modules as keys, except
// flags, which have those of the ConfigMap (camelEnabled).
type converge struct {
	*supervisor.Runs // of tasks of the reload, enabled scripts, purges; HandleFailure makes converge their strategy
	program          *program
	log              *slog.Logger
	ctx              context.Context // ends with the program
	// group are the modules of the RunModules task in progress.
	group []string

	// discovery is what the next one begins with, and what the last one has found.
	discovery
	globalHooks []hooks.Hook
	dynamicBy   map[string]string             // which hook has set each
	configured  map[string]string             // maintenance modes in the ConfigMap (H15)
	told        map[string]messages.SetModule // what modules know, and have not forgotten since
	// discoveryFails says why the discovery in progress has failed, "" when it has not.
	discoveryFails string
	problems       map[string][]string // on disk, by module or GlobalHooks

	held *view.HeldPurge // what the last reload would have purged; nil for nothing

	life[convergePhase]
	number int // of the last reload that has begun; 0 before the first
	// discoveredIn is the number of the last reload whose discovery counts.
	discoveredIn int
	began        time.Time
	cause        messages.Cause
	span         span       // of the start-up and the reload in progress
	counts       discovery  // the last one that counts
	steps        plan.Steps // of that
	off          []string   // modules, and why, as they were logged
	ready        bool       // the first converge is over
	delayed      bool       // a delayedReload is on its way
	// restarts counts since a reload has last ended without another one being asked for.
	restarts int
}

func newConverge(ctx context.Context, p *program, b *boot) *converge {
	return &converge{
		Runs: supervisor.NewRuns(p.System), program: p, log: p.Log, ctx: ctx,
		life: life[convergePhase]{"converge", p.Log, convergePhases(), idle},
		discovery: discovery{Config: b.doc.Flags, Suspended: b.suspended, Reload: plan.Reload{
			Tree: b.tree, Deployed: map[string]bool{}, Ran: map[string]bool{}, Ignored: p.IgnoredRelease, AllowPurge: p.AllowPurge,
			Maintenance: plan.WithSuspended(b.doc.Maintenance, b.suspended), Purges: plan.Purges{Allowed: map[string]bool{}},
		}},
		globalHooks: b.globalHooks, configured: b.doc.Maintenance, told: map[string]messages.SetModule{},
	}
}

// Receive implements actor.Actor.
func (c *converge) Receive(ctx actor.Context) {
	defer c.publish()
	if c.Runs.Receive(ctx) { // a run has ended or is to be restarted
		return
	}
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		c.showProblems()
		c.watch(ctx)
		c.startUp(ctx)
	case *actor.Stopping:
		c.span.End(nil)
	case messages.RequestReload:
		if msg.Gone != "" {
			c.forget(ctx, msg.Gone)
		}
		c.requestUnlooped(ctx, msg.Cause)
	case messages.ConfirmPurge:
		c.confirmPurge(ctx, msg.Value)
	case delayedReload:
		c.delayed = false
		c.request(ctx, msg.cause)
	case messages.ExecuteTask:
		c.execute(ctx, msg.Task)
	case diskChanged:
		c.diskChanged(ctx, msg.what)
	case messages.ConfigChanged:
		c.configChanged(ctx, msg)
	case messages.SuspensionChanged:
		c.suspensionChanged(ctx, msg)
	case messages.SetDynamicFlags:
		c.Dynamic, c.dynamicBy = msg.Flags, msg.By
		c.tell(ctx)
		c.tellConfig(ctx)
	case messages.ModuleDeleted:
		delete(c.Deployed, msg.Name)
		c.keepReviews(ctx)
	case messages.EndAttempts: // of a discovery, a purge, or the modules of a group
		c.Runs.LastAttempt(msg.ID)
		for _, name := range c.group {
			ctx.Send(c.program.Owner(name), msg)
		}
	case messages.RetryNow:
		c.Runs.RetryNow()
	case getDiscovery:
		ctx.Respond(c.begins())
	default:
		unhandled(ctx, c.log)
	}
}

// reloadJob makes what a run of converge needs. It has no Known: converge hands over nothing, its
// runs ask for a discovery.
func reloadJob(p *program, t messages.Task) Job {
	return Job{Shared: p.Runs, Owner: messages.Converge, Task: t, Log: p.Log}
}

// execute begins a task of converge. ReloadModules is the discovery itself, or it is done at once: then begin has put
// beforeAll hooks and the discovery before all that waits (F5).
func (c *converge) execute(ctx actor.Context, t messages.Task) {
	j := reloadJob(c.program, t)
	switch w := t.Work.(type) {
	case messages.ReloadModules:
		c.begin(ctx, t)
	case messages.FinishReload:
		c.finished(ctx, t.Reload)
		refuse(ctx, t) // it is done
	case messages.DiscoverModules:
		c.discover(ctx, t)
	case messages.RunModules:
		c.group = w.Names
		c.start(ctx, t, supervisor.Task{Work: func(run *supervisor.Run) (any, error) { return nil, j.RunModules(run, w.Names) }})
	case messages.PurgeRelease:
		c.start(ctx, t, supervisor.Task{
			Work: func(run *supervisor.Run) (any, error) { return j.Purge(run, w.Release) },
			Succeeded: func(_ actor.Context, purged any) {
				if purged == true {
					delete(c.Purges.Allowed, w.Release)
					delete(c.Deployed, w.Release)
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
		Begins:    func() { from = c.begins() },
		Work:      func(run *supervisor.Run) (any, error) { return j.discover(run, from) },
		Succeeded: func(ctx actor.Context, result any) { c.discovered(ctx, t, result) },
	}
	if w, _ := t.Work.(messages.DiscoverModules); len(w.Modules) > 0 {
		task.Work = func(run *supervisor.Run) (any, error) { return j.askAgain(run, from) }
		task.Succeeded = func(ctx actor.Context, result any) { c.scriptsAsked(ctx, t, w.Modules, result) }
	}
	c.start(ctx, t, task)
}

// start gives a task to a run, like owner.start for tasks of owners. The end is reported in Ended,
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
	task.Ended = func(ctx actor.Context, _ bool) {
		c.group = nil // all tasks of converge are in main, so that there is one at a time
		taskEnded(ctx, t, queue)
	}
	c.Runs.Start(ctx, task)
}

// failed is called after each failed attempt; pages show why a discovery fails.
func (c *converge) failed(t messages.Task, a supervisor.Attempt) {
	defer c.publish() // a failure is no message
	if _, ok := t.Work.(messages.DiscoverModules); ok {
		c.program.Metrics.DiscoveryFailed.Inc()
		c.discoveryFails = view.DiscoveryFails(a.Err) // those that are enabled stay so
	}
	c.program.NoticeFailure(c.log, t, a)
}

// scriptsAsked ends a discovery that is no step of a reload. A module that its script switches off is suspended at
// once, as by a flag, and a reload follows. If the answers are the same, the modules run whose sections have changed.
func (c *converge) scriptsAsked(ctx actor.Context, t messages.Task, modules []string, result any) {
	d, _ := result.(discovery)
	if c.number == 0 || c.discoveredIn != c.number {
		return // a reload asks them after this
	}
	before := c.Enabled
	c.decided(ctx, d.Verdicts)
	c.tell(ctx)
	if slices.Equal(d.Enabled, before) {
		c.run(ctx, modules, t.Cause)
		return
	}
	var changed []string
	for _, m := range c.Tree.Modules {
		if on := slices.Contains(d.Enabled, m.Name); on != slices.Contains(before, m.Name) {
			changed = append(changed, fmt.Sprintf("%s returned %t", m.Name, on))
		}
	}
	c.log.Info("enabled scripts returned different answers after a change of values", "modules", changed, "cause", t.Cause)
	c.requestUnlooped(ctx, messages.By(messages.ByScript, messages.Few(3, changed), t.Cause))
}

// discovered turns the result of a discovery into tasks (E8), unless a newer reload has overtaken
// this one and discovers again (F10). What was read from disk is put in force in either case. The
// order matters: the lists of enabled modules are published before any module receives
// SetModule, because its run gets them with the first hand-over.
func (c *converge) discovered(ctx actor.Context, t messages.Task, result any) {
	d, _ := result.(discovery)
	gone := c.found(d)
	c.showProblems()
	for _, name := range gone { // their releases are purged without hooks (X31)
		c.forget(ctx, name)
	}
	if d.GlobalChanged {
		c.exchangeGlobal(ctx, d)
	}
	if c.phase == requested { // also by exchangeGlobal, a line before
		return
	}
	c.decided(ctx, d.Verdicts)
	c.Enabled, c.discoveredIn, c.counts = d.Enabled, t.Reload, d
	steps := c.Steps()
	c.purgesDecided(ctx, steps)
	log, level, off := c.log, slog.LevelInfo, c.listOff()
	if reflect.DeepEqual(steps, c.steps) && slices.Equal(off, c.off) { // reloads are frequent where hooks cause them
		level = slog.LevelDebug
	}
	c.steps, c.off = steps, off
	c.keepReviews(ctx)
	if len(off) > 0 {
		log = log.With("off", messages.Few(maxOff, off))
	}
	if len(gone)+len(steps.Keep)+len(steps.Held) > 0 {
		log = log.With("removed", gone, "keep", steps.Keep, "held", steps.Held)
	}
	log.Log(c.ctx, level, "modules discovered", "run", steps.Run, "delete", steps.Delete, "purge", steps.Purge)
	c.program.Enabled.Store(&d.Enabled)
	for _, name := range steps.Run {
		c.Deployed[name], c.Ran[name] = true, true
	}
	c.tell(ctx) // of those that are off now, and not at their turn: what runs of them must end
	c.enqueue(ctx, true, t.Reload, c.reloadTasks(steps))
}

// decided notes which modules are enabled.
func (c *converge) decided(ctx actor.Context, verdicts map[string]plan.Verdict) {
	told := c.Verdicts != nil && maps.Equal(plan.Answers(verdicts), plan.Answers(c.Verdicts))
	if c.Verdicts = verdicts; !told {
		c.tellConfig(ctx)
	}
}

// tellConfig tells config what decides which modules' values are checked (D37): flags of hooks, and answers of scripts
// since the first discovery.
func (c *converge) tellConfig(ctx actor.Context) {
	enabling := plan.Enabling{Dynamic: c.Dynamic}
	if c.Verdicts != nil {
		enabling.Scripts = plan.Answers(c.Verdicts)
	}
	ctx.Send(c.program.PID(configPath), enabling)
}

// finished ends a reload, and with the first one the first converge (G8). A reload that was
// overtaken at its last step does not count: what the newer one is for has not been done yet (F10).
// Only from here on do schedules tick (C14).
func (c *converge) finished(ctx actor.Context, reload int) {
	if reload != c.number || c.phase == requested {
		return
	}
	c.span.End(nil)
	c.program.Metrics.reloadSeconds.WithLabelValues(activation(c.cause)).Add(seconds(c.began))
	c.program.Metrics.reloads.WithLabelValues(activation(c.cause)).Inc()
	log, text := c.log, "converged"
	if held := c.Purges.Held; len(held) > 0 {
		log, text = log.With("held", held), "converged, but a purge is held back"
	}
	log.Info(text, "modules", len(c.Enabled), "cause", c.cause, "took", time.Since(c.began).Round(time.Millisecond))
	if !c.ready { // at the end of the first converge
		ctx.Send(c.program.PID(schedulePath), messages.Converged{})
		c.ready = true
	}
	if c.phase == postponed {
		c.become(requested) // its task waits
		return
	}
	c.restarts = 0
	if c.become(idle); !c.delayed && c.globalChanged(c.counts) {
		c.requestUnlooped(ctx, messages.By(messages.ByHook, "afterAll hooks changed global values", c.cause).In(c.span.Name()))
	}
}

// keepReviews says before the steps of a reload whose hooks the API server may ask: those of modules that are enabled, or
// not deleted yet. What is configured for a module whose directory is gone stays while its purge is held.
func (c *converge) keepReviews(ctx actor.Context) {
	if c.program.Webhooks == nil {
		return
	}
	deleting := slices.DeleteFunc(slices.Clone(c.steps.Delete), func(name string) bool { return !c.Deployed[name] })
	owners := slices.Concat([]string{messages.GlobalHooks}, c.Enabled, c.Purges.Held, c.steps.Keep, deleting)
	for name := range c.Deployed { // with a directory that does not load, or a link that leads to nothing
		if c.Tree.Module(name) == nil && c.HasDirectory(name) {
			owners = append(owners, name)
		}
	}
	ctx.Send(c.program.PID(admissionPath), messages.KeepReviews{Owners: owners})
}

// globalChanged reports whether afterAll hooks have changed what the discovery of a reload was made from (G8). All
// other changes of that ask for a reload, or trigger nothing (G18).
func (c *converge) globalChanged(from discovery) bool {
	if len(hooks.ByOrder(c.globalHooks, hooks.AfterAll)) == 0 {
		return false
	}
	return from.Global.Checksum() != c.program.Global.Load().Checksum() ||
		!maps.Equal(from.Dynamic, c.Dynamic) || !maps.Equal(from.Config, c.Config)
}

// configChanged reacts to an edit (G16). Modules that it switches off are stopped at once, so that
// one which keeps failing does not delay the reload that deletes it (E11, F8). Every failed task is
// retried at once: the edit may be the fix (F8).
func (c *converge) configChanged(ctx actor.Context, msg messages.ConfigChanged) {
	c.Config, c.configured = msg.Flags, msg.Maintenance
	thawed, reload := c.maintenanceChanged(ctx)
	// Owners have received the new values before, and try again what has failed: config sends these first.
	c.Runs.RetryNow()
	fits := c.program.Disk != nil && len(msg.Modules) > 0 && c.Tree.Stale() // what did not fit the values may fit now
	c.react(ctx, reload || fits || msg.Global || msg.FlagsChanged, append(thawed, msg.Modules...), msg.Cause)
}

// publish shows the state on pages, in metrics and to probes. What is shown of all modules follows from it: a change
// that is due is not in force (J14).
func (c *converge) publish() {
	s := view.ConvergeStatus{
		Phase: view.ConvergeReloading, Ready: c.ready, Reload: c.number, Enabled: c.Enabled, HeldPurge: c.held, Problems: c.problems,
	}
	switch s.Off, s.On = c.explain(); {
	case c.number == 0:
		s.Phase = view.ConvergeStarting
	case c.phase == idle:
		s.Phase = view.ConvergeIdle
	}
	c.program.Inspector.Publish(c.program.PID(convergePath), s)
	c.program.Changed.Note("")
}

// shownProblems is how many problems of a module are shown; a schema may have a hundred.
const shownProblems = 10

// showProblems shows what is wrong on disk in ways with which an operator starts all the same (J12), and what is new
// also as an Event. The map is not changed afterwards.
func (c *converge) showProblems() {
	all := map[string][]string{}
	add := func(owner string, problems []string) {
		if len(problems) > 0 {
			all[owner] = problems[:min(len(problems), shownProblems)]
		}
	}
	add(messages.GlobalHooks, c.Tree.Global.Problems)
	for _, m := range c.Tree.Modules {
		add(m.Name, m.Problems())
	}
	before := c.problems
	c.problems = all
	c.publish() // whoever reads the Event looks here next
	for _, owner := range slices.Sorted(maps.Keys(all)) {
		text := "module " + owner + ": "
		if owner == messages.GlobalHooks {
			text = "global hooks: "
		}
		text += strings.Join(all[owner], "; ")
		if !slices.Equal(all[owner], before[owner]) {
			c.program.Notify(kube.Notice{Warning: true, Reason: "ModuleProblem", Message: text})
		}
	}
}

// tell sends modules what is wanted of them, unless they know. Converge is the only sender, so that the latest is
// always in force: it alone knows files, ConfigMap, flags of hooks and answers of scripts.
//
// A module under maintenance (H15) continues with its hooks, but its release is left alone: its
// runs leave Helm out, the healer does not know it, and when it is disabled, its hooks end and the
// release stays until maintenance is over. A run that is about to use Helm knows the mode from its module.
func (c *converge) tell(ctx actor.Context) {
	for _, m := range c.Tree.Modules {
		msg := messages.SetModule{Want: messages.Off, Maintenance: plan.Maintained(m, c.Maintenance), Files: m.Dir + m.Files()}
		switch wanted := c.wanted(m); {
		case wanted && slices.Contains(c.Enabled, m.Name):
			msg.Want = messages.Enabled
		case wanted:
			msg.Want = messages.On
		case msg.Maintenance != "": // its release stays
			msg.Want = messages.Forgotten
		}
		if msg != c.told[m.Name] {
			c.told[m.Name] = msg
			ctx.Send(c.program.Owner(m.Name), msg)
		}
	}
}

// maintenanceChanged tells modules their modes, and what flags want, as both are now. It returns the modules that must
// run because maintenance is over, and whether a reload is due, for deletes and purges that have waited.
func (c *converge) maintenanceChanged(ctx actor.Context) (run []string, reload bool) {
	before := c.Maintenance
	c.Maintenance = plan.WithSuspended(c.configured, c.Suspended)
	c.tell(ctx)
	return c.MaintenanceEnds(before)
}

// suspensionChanged suspends modules, and runs those that are resumed (H27).
func (c *converge) suspensionChanged(ctx actor.Context, msg messages.SuspensionChanged) {
	resumed := slices.DeleteFunc(slices.Collect(maps.Keys(c.Suspended)), func(name string) bool { return msg.Names[name] })
	c.Suspended = msg.Names
	_, reload := c.maintenanceChanged(ctx)
	c.react(ctx, reload, resumed, messages.Cause{Activation: messages.ByHand, Detail: "spec.suspend of objects of kind Module"})
}

// maxOff is how many modules that are off a line of the log names.
const maxOff = 10

// listOff says which modules are off by the last discovery, and why (E16).
func (c *converge) listOff() (list []string) {
	for _, m := range c.Tree.Modules {
		if !slices.Contains(c.Enabled, m.Name) {
			list = append(list, m.Name+": "+c.why(c.Verdicts[m.Name], m))
		}
	}
	return list
}

// why says which rule has enabled or disabled a module, and which hook (E16). plan does not know
// hooks: converge receives their names with the flags.
func (c *converge) why(v plan.Verdict, m addons.Module) string {
	if v.Source == plan.ByHookFlag {
		v.Reason = c.dynamicBy[values.FlagKey(m.Key)]
	}
	return v.Why(m)
}

// explain says why modules are off, or on: by the flags as they are now, and by what the last
// discovery has found.
func (c *converge) explain() (off, on map[string]string) {
	off, on = map[string]string{}, map[string]string{}
	for _, m := range c.Tree.Modules {
		flags := plan.SwitchedOn(m, c.Dynamic, c.Config)
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
			off[m.Name] = c.why(c.Verdicts[m.Name], m)
		default:
			off[m.Name] = view.Undecided(flags.Source)
		}
	}
	for name := range c.told {
		if c.Tree.Module(name) == nil { // its actor lives on
			off[name] = "its directory is gone"
		}
	}
	return off, on
}
