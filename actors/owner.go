package actors

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// owner is what a module and the global hooks have in common: it is the single writer
// of one section of values, has hooks, and supervises the runs of its tasks.
//
// Results of hooks are applied one after the other: a result that must be written to
// the ConfigMap waits for the config actor, and the ones behind it wait for that (D28).
type owner struct {
	runs    *supervisor.Runs
	self    applier // the actor whose part it is
	program *program
	name    string // module name, or messages.GlobalHooks
	log     *slog.Logger
	// workingDir is WORKING_DIR of its hooks: the root in which they are searched (C23).
	workingDir string

	applying *application
	waiting  []application // behind the one that is being applied
	awaiting []*actor.PID  // runs that wait for all Synchronization runs
	queued   map[string]bool
	failing  map[string]view.FailingTask // by task
	parked   map[string]bool             // tasks that their queue no longer waits for
	alone    map[string]bool             // tasks in progress that need the release for themselves
	next     []assignment                // wait for the end of these
	changing map[string]assignment       // tasks in progress that change the release
	waitsFor *view.Wait                  // the Helm hook that one of them waits for; not written to
	toldWait toldWait

	section      *values.Section
	converged    convergedValues
	hooks        []hooks.Hook
	synchronized map[messages.BindingKey]bool
	deferred     map[messages.BindingKey]bool // these are not waited for
	fresh        map[string]*hooks.Config     // hooks whose start-up is due since they were exchanged, by name
	begun        map[string]*hooks.Config     // those of them whose onStartup has run for an earlier version
	kept         map[string]staying           // bindings that stayed at the last exchange
	hookTasks    map[string]string            // the hooks of tasks in progress
	limits       work.Limits
	unfinished   work.Unfinished
}

// convergedValues are the values at the end of the last converge, which people compare with.
type convergedValues struct {
	section *values.Section
	at      time.Time
}

func newOwner(self applier, p *program, name, workingDir string, log *slog.Logger, section *values.Section) *owner {
	return &owner{
		runs: supervisor.NewRuns(p.System, log), self: self, program: p, name: name, log: log, workingDir: workingDir, section: section,
		synchronized: map[messages.BindingKey]bool{}, deferred: map[messages.BindingKey]bool{},
		fresh: map[string]*hooks.Config{}, begun: map[string]*hooks.Config{}, hookTasks: map[string]string{},
		queued: map[string]bool{}, failing: map[string]view.FailingTask{}, parked: map[string]bool{}, alone: map[string]bool{}, changing: map[string]assignment{},
	}
}

// receive handles the messages that all owners understand. It
// reports whether the message was one of them.
func (o *owner) receive(ctx actor.Context) bool {
	if o.runs.Receive(ctx) {
		return true
	}
	switch msg := ctx.Message().(type) {
	case messages.ApplyHookResult:
		o.applyHookResult(ctx, application{msg: msg, from: ctx.Sender()})
	case messages.ConfigSaved:
		o.configSaved(ctx, msg)
	case messages.SetConfig:
		o.setConfig(msg)
	case messages.BindingSynchronized:
		o.bindingSynchronized(ctx, msg)
	case messages.BindingDeferred:
		o.bindingDeferred(ctx, msg)
	case messages.SnapshotsComplete:
		o.self.reconcile(ctx, messages.Cause{Activation: messages.BySync, Detail: msg.Hook})
	case messages.AwaitSynchronized:
		o.awaitSynchronized(ctx, msg)
	case messages.RetryNow:
		o.retryNow()
	case work.Waits:
		o.runWaits(ctx, msg)
	case work.HandOver:
		ctx.Respond(work.Handed{Known: o.self.known()})
	case messages.GetValues:
		ctx.Respond(o.values())
	case messages.ListHooks:
		ctx.Respond(messages.HookList{Hooks: o.hooks})
	case messages.RememberValues:
		o.converged = convergedValues{o.section, time.Now()}
	default:
		return false
	}
	return true
}

// reset forgets what belongs to an enabled module only.
func (o *owner) reset() {
	o.hooks = nil
	clear(o.fresh)
	clear(o.begun)
	o.synchronized, o.deferred = map[messages.BindingKey]bool{}, map[messages.BindingKey]bool{}
	o.section = o.section.WithoutPatches()
	o.program.ran.forget(o.section.Key())
	o.unfinished.Clear()
}

// setConfig replaces the ConfigMap layer; saved patches are replayed over it (D22). The
// config actor has checked it, but not the sections of disabled modules (D37): their old
// values stay until theirs are fixed.
func (o *owner) setConfig(msg messages.SetConfig) {
	next, err := o.section.WithConfig(msg.Section, msg.Origin)
	if err == nil {
		next, err = next.WithSecret(msg.Secret, msg.SecretOrigin)
	}
	if err != nil {
		o.log.Error("new config values are refused", "err", err)
		return
	}
	o.setSection(next)
}

// setSection replaces the section. What must not be shown of it is known before anybody can see it.
func (o *owner) setSection(section *values.Section) {
	o.program.Secrets.Know(section.Key(), section.Secrets().Texts())
	o.section = section
	if o.name == messages.GlobalHooks {
		o.program.global.Store(section)
	}
}

// values answers GetValues.
func (o *owner) values() messages.Values {
	return messages.Values{Section: o.section, Converged: o.converged.section, ConvergedAt: o.converged.at}
}

// hook finds a hook by its name.
func (o *owner) hook(name string) (hooks.Hook, error) {
	i := slices.IndexFunc(o.hooks, func(h hooks.Hook) bool { return h.Name == name })
	if i < 0 {
		return hooks.Hook{}, fmt.Errorf("hook %s is not loaded", name)
	}
	return o.hooks[i], nil
}

// job makes what a run needs to run hooks of this owner.
func (o *owner) job(t messages.Task) work.Job {
	return work.Job{Shared: o.program.runs, Owner: o.name, WorkingDir: o.workingDir, Task: t, Known: &work.Known{}, Log: o.log, Limits: &o.limits, Unfinished: &o.unfinished, Parts: partsOf(t)}
}

// known is what an owner hands over; modules add to it.
func (o *owner) known() work.Known {
	return work.Known{
		Global: o.program.global.Load(), Own: o.section, Enabled: o.program.enabledModules(),
		Hooks: o.hooks, Fresh: maps.Clone(o.fresh), OnceStarted: maps.Clone(o.begun), Synchronized: maps.Clone(o.synchronized), Deferred: maps.Clone(o.deferred),
	}
}

// enabledModules are those that the last discovery has enabled.
func (p *program) enabledModules() []string {
	if names := p.enabled.Load(); names != nil {
		return *names
	}
	return nil
}
