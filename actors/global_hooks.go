package actors

import (
	"fmt"
	"maps"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// globalHooks owns the global values and the global hooks and supervises their runs. It has no
// phases: global hooks are never switched off, and start again when their files change (P8). Of a reload it runs
// beforeAll and afterAll, which converge queues.
type globalHooks struct {
	*owner

	// flags are the opinions of global hooks on enabled modules, by flag key (D25).
	flags map[string]bool
	// flagsBy says which hook has set each flag last.
	flagsBy map[string]string
}

// newGlobalHooks makes the owner of the global values; found are its hooks.
func newGlobalHooks(p *program, workingDir string, section *values.Section, found []hooks.Hook) actor.Actor {
	g := &globalHooks{flags: map[string]bool{}, flagsBy: map[string]string{}}
	g.owner = newOwner(g, p, messages.GlobalHooks, workingDir, p.Log, section)
	g.hooks = found
	p.Global.Store(section)
	return g
}

// Receive implements actor.Actor.
func (g *globalHooks) Receive(ctx actor.Context) {
	defer g.publish()
	if g.owner.receive(ctx) {
		return
	}
	switch msg := ctx.Message().(type) {
	case messages.ExecuteTask:
		g.execute(ctx, msg.Task)
	case updateGlobal:
		g.update(ctx, msg)
	case messages.Review:
		g.review(ctx, msg)
	default:
		unhandled(ctx, g.log)
	}
}

// execute begins a task. Unlike in a module, none needs a release for itself, so tasks of different
// queues run in parallel.
func (g *globalHooks) execute(ctx actor.Context, t messages.Task) {
	j := g.job(t)
	a := &assignment{Job: j, queue: ctx.Sender()}
	switch t.Work.(type) {
	case messages.RunHook, messages.SynchronizeHook:
		a.work = g.hookWork(j)
	case messages.AwaitSynchronization:
		a.work = func(run *supervisor.Run) (any, error) { return nil, j.AwaitSynchronized(run) }
	default:
		g.log.Error("task refused", "task", t.String(), "err", errNoSuchWork)
	}
	if a.work == nil {
		refuse(ctx, t)
		return
	}
	g.start(ctx, a)
}

// update takes over in place what has changed on disk. Other hooks take the place of all: these end with their
// watches and schedules, and start as after a restart. Converge has queued their start-up before this message
// (exchangeGlobal).
func (g *globalHooks) update(ctx actor.Context, msg updateGlobal) {
	g.onFiles(msg.Section)
	if !msg.Asked {
		return
	}
	g.cancelAll()
	for _, hook := range g.hooks {
		g.program.Metrics.ForgetHook("", hook.Name)
	}
	g.reset()
	g.hooks = msg.Hooks
	ctx.Send(g.program.PID(monitorsPath), messages.Unwatch{Owner: messages.GlobalHooks})
	ctx.Send(g.program.PID(schedulePath), messages.StopSchedules{Owner: messages.GlobalHooks})
	g.program.NameQueues(ctx, msg.Hooks)
}

// patches implements applier: a global hook may touch global and *Enabled flags (D20).
func (g *globalHooks) patches(r hooks.Result) (config, memory values.Patch, flags flagChanges, err error) {
	if config, flags.config, err = r.ConfigPatch.ForGlobal(); err != nil {
		return nil, nil, flags, fmt.Errorf("config values patch: %w", err)
	}
	if memory, flags.memory, err = r.ValuesPatch.ForGlobal(); err != nil {
		return nil, nil, flags, fmt.Errorf("values patch: %w", err)
	}
	return config, memory, flags, nil
}

// committed implements applier (G13, G18). Flags reach converge before the reload that they cause.
func (g *globalHooks) committed(ctx actor.Context, msg messages.ApplyHookResult, changed bool, flags flagChanges) {
	converge := g.program.PID(convergePath)
	flagsChanged := flags.configChanged
	if g.setFlags(flags.memory, msg.Hook) {
		flagsChanged = true
		ctx.Send(converge, messages.SetDynamicFlags{Flags: maps.Clone(g.flags), By: maps.Clone(g.flagsBy)})
	}
	// Flags of a Synchronization count at the discovery that follows (G18). After one that was not
	// waited for, none may follow, and a module would stay suspended.
	missed := flagsChanged && msg.Binding == hooks.OnKubernetes && g.ticks
	if (changed || flagsChanged) && msg.Triggers || missed {
		ctx.Send(converge, messages.RequestReload{Cause: msg.Cause})
	}
}

// reconcile implements applier.
func (g *globalHooks) reconcile(ctx actor.Context, cause messages.Cause) {
	ctx.Send(g.program.PID(convergePath), messages.RequestReload{Cause: cause})
}

// setFlags sets dynamic flags; nil removes one (D25). Setting a flag to its current value changes nothing, so
// the flag keeps the name of the hook that set it first.
func (g *globalHooks) setFlags(flags []values.Flag, hook string) (changed bool) {
	for _, f := range flags {
		old, had := g.flags[f.Key]
		switch {
		case f.Value == nil:
			delete(g.flags, f.Key)
			changed = changed || had
		case !had || old != *f.Value:
			g.flags[f.Key], g.flagsBy[f.Key] = *f.Value, hook
			changed = true
		}
	}
	return changed
}

func (g *globalHooks) publish() {
	g.program.Inspector.Publish(g.program.Owner(messages.GlobalHooks), view.GlobalStatus{
		Hooks: len(g.hooks), Loaded: g.hooks,
		Section: g.section, Values: g.section.Checksum()[:8], Failing: g.listFailing(),
	})
}
