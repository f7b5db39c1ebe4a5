package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// Operator is the running program as seen from outside the actors. Calls of Load, Start and Stop
// must not overlap; the other methods may be called by any goroutine.
type Operator struct {
	program *program
	root    *actor.PID             // nil before Start
	stop    context.CancelFunc     // ends what the actors have begun outside: watches, timers
	boot    *boot                  // what Load has read
	waits   atomic.Pointer[string] // what the start waits for; pages read it meanwhile
}

// New makes an operator; it starts nothing. From then on metrics and pages work, and show an
// operator that has not begun.
func New(w World) *Operator {
	system := supervisor.NewSystem(supervisor.Options{Log: w.Log, Dispatcher: w.Dispatcher, Backoff: w.Backoff, Crashed: w.Crashed, Observe: w.Observe})
	if w.Metrics == nil {
		w.Metrics = NewMetrics(view.MetricsPrefix)
	}
	p := newProgram(system, w)
	w.Metrics.Watch(Sources{Actors: system.Inspector, Critical: !w.Isolate, Leadership: w.Leadership, Hanging: p.Runs.Hanging})
	o := &Operator{program: p}
	o.waitsFor("")
	return o
}

// Load reads the files and the ConfigMap (G0), again each time: a replica that has waited for its Lease begins with
// what there is then.
// An error means that the operator must not run: a directory or a file is broken, a global
// hook has no valid configuration, or the values are not valid (D36). An API server that
// cannot be reached is waited for.
func (o *Operator) Load(ctx context.Context) (err error) {
	if o.boot, err = load(ctx, o.program, o.waitsFor); err == nil {
		o.waits.Store(new(string))
	}
	return err
}

// Start spawns the actors, which begin the first converge, with what Load has read; it loads unless that was called.
func (o *Operator) Start(ctx context.Context) error {
	if o.boot == nil {
		if err := o.Load(ctx); err != nil {
			return err
		}
	}
	b := o.boot
	o.boot = nil // the actors have it
	return o.spawn(ctx, b)
}

// waitsFor shows why the start does not go on; empty when it does.
func (o *Operator) waitsFor(what string) {
	o.waits.Store(new(cmp.Or(what, "files, hooks and values are being read")))
}

// spawn starts the actors. They outlive ctx, which is that of the start: Stop ends them in order.
func (o *Operator) spawn(ctx context.Context, b *boot) error {
	o.program.SecretOff.Store(b.secretOff)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	o.stop = stop
	root, err := o.program.Spawn(Root, func() actor.Actor { return newOperator(running, o.program, b) })
	if err != nil {
		return err
	}
	o.root = root
	// The actors are addressed by name; a name may be used when its actor is up.
	if _, err := o.program.Ask(ctx, root, areYouReady{}); err != nil {
		return fmt.Errorf("start the actors: %w", err)
	}
	return nil
}

// closeTime is how long a stop waits for an API server that may be away.
const closeTime = 2 * time.Second

// Stop ends everything in order: no new events, no new tasks, running hooks get TERM,
// Helm finishes. It returns when nothing runs any more, or when ctx is done (F18).
func (o *Operator) Stop(ctx context.Context) error {
	if o.root == nil { // it was never started
		return nil
	}
	o.stop()
	o.program.Send(o.root, messages.ShutDown{})
	err := o.program.Wait(ctx, o.root)
	if err == nil {
		ending, cancel := context.WithTimeout(ctx, closeTime)
		defer cancel()
		o.program.Releases.Close(ending)
	}
	o.program.Close()
	return err
}

// Send gives a message to the actor with this path below the root, for example
// "module/dns", or to the root itself for an empty path. Tests use it; the actor must exist.
func (o *Operator) Send(path string, message any) {
	if path == "" {
		o.program.Send(o.root, message)
		return
	}
	o.program.Send(o.program.PID(Root+"/"+path), message)
}

// Ask gives a question to the actor with this path below the root and waits for the
// answer. Debug pages use it.
func (o *Operator) Ask(ctx context.Context, path string, question any) (any, error) {
	return o.program.Ask(ctx, o.program.PID(Root+"/"+path), question)
}

// Inspector shows the mailboxes of all actors.
func (o *Operator) Inspector() *supervisor.Inspector { return o.program.Inspector }

// Metrics are the figures of the operator.
func (o *Operator) Metrics() *Metrics { return o.program.Metrics }

// HangingHooks lists the hooks and enabled scripts that have been running for a minute or more.
func (o *Operator) HangingHooks() []view.RunningHook { return o.program.Runs.Hanging() }

// Hide gives a text without the secrets in the values.
func (o *Operator) Hide(text string) string { return o.program.Secrets.Hide(text) }

// Converge is what the converge actor says about itself; before the start, what that waits
// for.
func (o *Operator) Converge() view.ConvergeStatus {
	status, started := o.program.Inspector.Status(convergePath).(view.ConvergeStatus)
	if !started {
		status.Waits = *o.waits.Load()
	}
	return status
}

// NotInForce says of each module, or global-hooks, how the files on disk differ from what is in force: they were
// changed since they were compared last. What was refused is among the problems. It reads the disk.
func (o *Operator) NotInForce() map[string]string {
	tree := o.program.Runs.Tree.Load()
	if tree == nil {
		return nil
	}
	return notInForce(tree.Unloaded(o.program.Dirs))
}

// operator is the root actor: it starts the others in order, spawns modules and named
// queues when they are needed, and stops all in order.
type operator struct {
	program  *program
	ctx      context.Context
	boot     *boot           // of the start
	children map[string]bool // by path
	// modules and global are what was handed out last. A module whose directory is gone is not among them; its actor
	// lives on.
	modules  map[string]addons.Module
	global   addons.Global
	stages   supervisor.Stages
	stopping bool // no actor is spawned any more
}

// The stages of the stop, from the last to go to the first.
const (
	stageConfig  = iota // others save values to the end
	stageOwners         // running tasks end here
	stageQueues         // no new task begins
	stageSources        // no new events
	stages
)

// areYouReady is answered when all actors of the start are spawned.
type areYouReady struct{}

func newOperator(ctx context.Context, p *program, b *boot) *operator {
	return &operator{program: p, ctx: ctx, boot: b, children: map[string]bool{}, modules: map[string]addons.Module{}, stages: supervisor.NewStages(stages)}
}

// Receive implements actor.Actor.
func (o *operator) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		o.started(ctx)
	case areYouReady: // the mailbox begins with Started, which spawns the others
		ctx.Respond(areYouReady{})
	case messages.Enqueue:
		o.enqueue(ctx, msg)
	case spawnModules: // config answers, unless it fails here
		if err := o.spawnModules(ctx, msg); err != nil {
			ctx.Respond(sectionsAdded{Err: err})
		}
	case messages.ShutDown:
		o.shutDown(ctx)
	case *actor.Terminated:
		if o.stages.Terminated(ctx, msg.Who) {
			ctx.Stop(ctx.Self())
		}
	default:
		unhandled(ctx, o.program.Log)
	}
}

// started spawns the actors. Converge, which begins with the start-up of global hooks, comes last.
func (o *operator) started(ctx actor.Context) {
	o.publish(ctx)
	b := o.boot
	o.spawn(ctx, stageConfig, configPath, newConfig(o.ctx, o.program, b))
	o.spawn(ctx, stageConfig, healerPath, newHealer(o.ctx, o.program)) // runs ask it to the end
	o.spawn(ctx, stageSources, monitorsPath, newMonitors(o.ctx, o.program))
	o.global = b.tree.Global
	o.spawn(ctx, stageSources, schedulePath, newSchedule(o.program))
	o.spawn(ctx, stageOwners, globalPath, newGlobalHooks(o.program, b.tree.Global.Dir, b.sections[values.GlobalKey], b.globalHooks))
	for _, m := range b.tree.Modules {
		o.modules[m.Name] = m
		o.spawn(ctx, stageOwners, modulePath+m.Name, newModule(o.program, m, b.sections[m.Key]))
	}
	for _, name := range append(hooks.Queues(b.globalHooks), messages.MainQueue) {
		o.spawn(ctx, stageQueues, queuePath+name, newQueue(o.program, name))
	}
	if o.program.ModuleObjects != nil {
		o.spawn(ctx, stageSources, objectsPath, newModuleObjects(o.ctx, o.program, b.suspended))
	}
	o.spawn(ctx, stageOwners, convergePath, newConverge(o.ctx, o.program, b))
}

// spawn starts a child, unless it is there.
func (o *operator) spawn(ctx actor.Context, stage int, path string, child actor.Actor) {
	if o.children[path] {
		return
	}
	pid, err := ctx.SpawnNamed(o.program.Props(func() actor.Actor { return child }), strings.TrimPrefix(path, Root+"/"))
	if err != nil { // names are unique
		o.program.Log.Error("bug: an actor could not be spawned", "path", path, "err", err)
		return
	}
	o.children[path] = true
	o.stages.Add(stage, pid)
}

// enqueue hands tasks to a queue, which begins when a loaded hook names it, or with its first task, and stays (F1).
func (o *operator) enqueue(ctx actor.Context, msg messages.Enqueue) {
	if !o.stopping {
		o.spawn(ctx, stageQueues, queuePath+msg.Queue, newQueue(o.program, msg.Queue))
		ctx.Send(o.program.PID(queuePath+msg.Queue), msg)
	}
}

// spawnModules starts actors for modules that are new, and sends the others what has changed in their directories (P8). The config
// actor receives the sections that are new, gives them their part of the ConfigMap and then answers who asked:
// config may be busy with a write, and no module may run before it has its values.
// The sections go to config from here, not from the run that asks: one that is cancelled between two
// questions would leave modules without their part of the ConfigMap.
func (o *operator) spawnModules(ctx actor.Context, msg spawnModules) error {
	if o.stopping { // they would not be stopped
		return errors.New("the operator is stopping")
	}
	sections := map[string]*values.Section{}
	now := make(map[string]addons.Module, len(msg.Tree.Modules))
	for _, m := range msg.Tree.Modules {
		old, there := o.modules[m.Name]
		now[m.Name] = m
		if there && old.Same(m) {
			continue
		}
		section, err := plan.SectionFor(m)
		if err != nil { // not expected: the run has left out modules for which this fails
			return fmt.Errorf("module %s: %w", m.Name, err)
		}
		switch {
		case there && m.SameFiles(old): // a values.yaml of a root differs
			if m.SameValues(old) {
				section = nil // the owner keeps its own, with what people and hooks have set
			}
			ctx.Send(o.program.Owner(m.Name), updateModule{Module: m, Section: section})
			continue
		case o.children[modulePath+m.Name]:
			ctx.Send(o.program.Owner(m.Name), updateModule{Module: m, Section: section, Again: true})
		default:
			o.spawn(ctx, stageOwners, modulePath+m.Name, newModule(o.program, m, section))
		}
		sections[m.Key] = section
	}
	if err := o.updateGlobal(ctx, msg); err != nil {
		return err
	}
	ctx.RequestWithCustomSender(o.program.PID(configPath), addSections{Modules: msg.Tree.Modules, Sections: sections}, ctx.Sender())
	o.modules = now
	return nil
}

// updateGlobal distributes changed global files: hooks, values and schemas.
func (o *operator) updateGlobal(ctx actor.Context, msg spawnModules) error {
	now := msg.Tree.Global
	if now.Same(o.global) {
		return nil
	}
	section, err := values.NewSection(values.GlobalKey, now.Schemas, now.Static...)
	if err != nil {
		return fmt.Errorf("global values: %w", err)
	}
	update := updateGlobal{Section: section, Hooks: msg.GlobalHooks, Asked: msg.Asked}
	ctx.Send(o.program.Owner(messages.GlobalHooks), update)
	o.global = now
	return nil
}

// shutDown begins the stop (F18). Stages end one after the other; Terminated begins the next one.
func (o *operator) shutDown(ctx actor.Context) {
	o.stopping = true
	o.program.Log.Info("stopping: no new tasks are started, running hooks receive TERM")
	o.publish(ctx)
	if o.stages.Stop(ctx) {
		ctx.Stop(ctx.Self())
	}
}

func (o *operator) publish(ctx actor.Context) {
	stopping, leadership := o.stopping, o.program.Leadership
	o.program.Inspector.Publish(ctx.Self(), supervisor.Live(func() fmt.Stringer {
		status := view.OperatorStatus{Stopping: stopping}
		if leadership != nil {
			now := leadership()
			status.Leadership = &now
		}
		return status
	}))
}
