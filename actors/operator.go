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
	"github.com/cenkalti/backoff/v4"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/kube"
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
	w.Mailboxes.Log = w.Log
	if w.Metrics == nil {
		w.Metrics = NewMetrics(view.MetricsPrefix)
	}
	p := newProgram(supervisor.NewSystem(w.Mailboxes), w)
	w.Metrics.live.source.Store(p)
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
// They outlive ctx, which is that of the start: Stop ends them in order.
func (o *Operator) Start(ctx context.Context) error {
	if o.boot == nil {
		if err := o.Load(ctx); err != nil {
			return err
		}
	}
	b := o.boot
	o.boot = nil // the actors have it
	o.program.SecretOff.Store(b.secretOff)
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	o.stop = stop
	var err error
	if o.root, err = o.program.Spawn(Root, func() actor.Actor { return newOperator(running, o.program, b) }); err != nil {
		return err
	}
	// The actors are addressed by name; a name may be used when its actor is up.
	if _, err := o.program.Ask(ctx, o.root, areYouReady{}); err != nil {
		return fmt.Errorf("start the actors: %w", err)
	}
	return nil
}

// waitsFor shows why the start does not go on; empty when it does.
func (o *Operator) waitsFor(what string) {
	o.waits.Store(new(cmp.Or(what, "files, hooks and values are being read")))
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
	o.program.Send(o.program.PID(strings.TrimSuffix(Root+"/"+path, "/")), message)
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
	boot     *boot // of the start
	children supervisor.Stages
	// tree is what was handed out last. A module whose directory is gone is not in it; its actor lives on.
	tree     *addons.Tree
	stopping bool // no actor is spawned any more
}

// The stages of the stop, from the last to go to the first.
const (
	stageConfig  = iota // others save values to the end
	stageOwners         // running tasks end here
	stageQueues         // no new task begins
	stageSources        // no new events
)

// areYouReady is answered when all actors of the start are spawned.
type areYouReady struct{}

func newOperator(ctx context.Context, p *program, b *boot) *operator {
	return &operator{program: p, ctx: ctx, boot: b, children: supervisor.Stages{}, tree: b.tree}
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
		o.children.Terminated(ctx, msg.Who)
	default:
		unhandled(ctx, o.program.Log)
	}
}

// started spawns the actors. Converge, which begins with the start-up of global hooks, comes last.
func (o *operator) started(ctx actor.Context) {
	b := o.boot
	o.spawn(ctx, stageConfig, configPath, newConfig(o.ctx, o.program, b))
	o.spawn(ctx, stageConfig, healerPath, newHealer(o.ctx, o.program)) // runs ask it to the end
	all := &monitors{program: o.program, log: o.program.Log, ctx: o.ctx, watches: map[messages.WatchKey]*monitor{}}
	o.spawn(ctx, stageSources, monitorsPath, all)
	ticks := &schedule{program: o.program, log: o.program.Log, owners: map[string][]hooks.Hook{}}
	o.spawn(ctx, stageSources, schedulePath, ticks)
	o.spawn(ctx, stageOwners, globalPath, newGlobalHooks(o.program, b.tree.Global.Dir, b.section(values.GlobalKey), b.globalHooks))
	for _, m := range b.tree.Modules {
		o.spawn(ctx, stageOwners, modulePath+m.Name, newModule(o.program, m, b.section(m.Key)))
	}
	for _, name := range append(hooks.Queues(b.globalHooks), messages.MainQueue) {
		o.spawn(ctx, stageQueues, queuePath+name, &queue{program: o.program, name: name})
	}
	if o.program.Webhooks != nil {
		o.spawn(ctx, stageOwners, admissionPath, newAdmission(o.program))
	}
	if o.program.ModuleObjects != nil {
		o.spawn(ctx, stageSources, objectsPath, newModuleObjects(o.ctx, o.program, b.suspended))
	}
	o.spawn(ctx, stageOwners, convergePath, newConverge(o.ctx, o.program, b))
}

// spawn starts a child, unless it is there.
func (o *operator) spawn(ctx actor.Context, stage int, path string, child actor.Actor) {
	if _, there := o.children[path]; there {
		return
	}
	_, err := ctx.SpawnNamed(o.program.Props(func() actor.Actor { return child }), strings.TrimPrefix(path, Root+"/"))
	if err != nil { // names are unique
		o.program.Log.Error("bug: an actor could not be spawned", "path", path, "err", err)
		return
	}
	o.children[path] = stage
}

// enqueue hands tasks to a queue, which begins when a loaded hook names it, or with its first task, and stays (F1).
func (o *operator) enqueue(ctx actor.Context, msg messages.Enqueue) {
	if !o.stopping {
		o.spawn(ctx, stageQueues, queuePath+msg.Queue, &queue{program: o.program, name: msg.Queue})
		ctx.Send(o.program.PID(queuePath+msg.Queue), msg)
	}
}

// spawnModules starts actors for modules that are new, and sends the others what has changed in their directories
// (P8). The config actor receives the sections that are new, gives them their part of the ConfigMap and then answers
// who asked: config may be busy with a write, and no module may run before it has its values. The sections go to
// config from here, not from the run that asks: one that is cancelled between two questions would leave modules
// without their part of the ConfigMap.
func (o *operator) spawnModules(ctx actor.Context, msg spawnModules) error {
	if o.stopping { // they would not be stopped
		return errors.New("the operator is stopping")
	}
	sections := map[string]*values.Section{}
	for _, m := range msg.Tree.Modules {
		old := o.tree.Module(m.Name)
		_, spawned := o.children[modulePath+m.Name]
		if old != nil && old.Same(m) {
			continue
		}
		section, err := plan.SectionFor(m)
		if err != nil { // not expected: the run has left out modules for which this fails
			return fmt.Errorf("module %s: %w", m.Name, err)
		}
		switch {
		case old != nil && m.SameFiles(*old): // a values.yaml of a root differs
			ctx.Send(o.program.Owner(m.Name), updateModule{Module: m, Section: section})
			continue
		case spawned:
			ctx.Send(o.program.Owner(m.Name), updateModule{Module: m, Section: section, Again: true})
		default:
			o.spawn(ctx, stageOwners, modulePath+m.Name, newModule(o.program, m, section))
		}
		sections[m.Key] = section
	}
	if now := msg.Tree.Global; !now.Same(o.tree.Global) {
		section, err := values.NewSection(values.GlobalKey, now.Schemas, now.Static...)
		if err != nil {
			return fmt.Errorf("global values: %w", err)
		}
		update := updateGlobal{Section: section, Hooks: msg.GlobalHooks, Asked: msg.Asked}
		ctx.Send(o.program.Owner(messages.GlobalHooks), update)
	}
	ctx.RequestWithCustomSender(o.program.PID(configPath), addSections{Modules: msg.Tree.Modules, Sections: sections}, ctx.Sender())
	o.tree = msg.Tree
	return nil
}

// shutDown begins the stop (F18). Stages end one after the other; Terminated begins the next one.
func (o *operator) shutDown(ctx actor.Context) {
	o.stopping = true
	o.program.Log.Info("stopping: no new tasks are started, running hooks receive TERM")
	o.children.Stop(ctx)
}

// boot is what is known before the first actor is spawned (G0). It belongs to the goroutine that
// starts the operator until the actors get it. Each then takes its part.
type boot struct {
	World
	waits       func(string) // is called with what the start waits for, and with an empty text when it goes on
	tree        *addons.Tree
	globalHooks []hooks.Hook
	templates   map[string]*values.Section // by key, from files alone: what contents are checked with
	suspended   map[string]bool            // modules, by objects of kind Module (H27)

	inCluster, inForce contents
	// secretOff: there is no Secret to be read or written, until the end of the process: a right that is given later
	// takes effect after a restart.
	secretOff bool
	doc       values.Document // what is in force
}

// contents are those of ConfigMap and Secret.
type contents struct{ configMap, secret kube.ConfigMap }

// load reads directories, asks global hooks for their configuration, and reads and
// validates the ConfigMap. The API server is asked meanwhile: it takes as long as the hooks.
// What is wrong on disk is returned without waiting for it; waits is called with what it waits for.
func load(ctx context.Context, p *program, waits func(string)) (*boot, error) {
	b := &boot{World: p.World, waits: waits}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var read errgroup.Group
	read.Go(func() (err error) {
		if b.inCluster.configMap, err = waitFor(reading, b, "the ConfigMap", b.ConfigMap.Read); err != nil {
			return err
		}
		// On the same connection: two at once would make two.
		read.Go(func() (err error) {
			b.suspended, err = waitFor(reading, b, "the objects of kind Module", b.readSuspended)
			return err
		})
		b.inCluster.secret, err = waitFor(reading, b, "the Secret with values", b.readSecret)
		return err
	})
	if err := b.loadFiles(ctx, p); err != nil { // a person must repair it, so the API server, which may be away, does not matter
		stop()
		_ = read.Wait() // that it was stopped is no news
		return nil, err
	}
	if err := read.Wait(); err != nil {
		return nil, err
	}
	if err := b.useValid(ctx); err != nil {
		return nil, fmt.Errorf("the operator does not start; fix the ConfigMap, the Secret with values or the values.yaml files and start again: %w", err)
	}
	return b, nil
}

// loadFiles is the part of load that is on disk. Errors of values, schemas and hooks are reported
// together. Only global hooks are asked for their configuration: those of a module are asked when
// it is enabled, and must not keep the others from starting (C6).
func (b *boot) loadFiles(ctx context.Context, p *program) error {
	var loading errgroup.Group // while global hooks are asked, which takes as long
	loading.Go(func() (err error) {
		b.tree, err = addons.Load(b.Dirs)
		return err
	})
	global, asked := addons.FindGlobal(b.Dirs.Global) // Load returns its error, too
	if asked == nil {
		b.globalHooks, asked = p.Runs.LoadGlobalHooks(ctx, global)
	}
	if err := loading.Wait(); err != nil {
		return err
	}
	for _, warning := range b.tree.Warnings {
		b.Log.Warn(warning)
	}
	var err error
	b.templates, err = plan.Sections(b.tree)
	return errors.Join(asked, err) // nil if both are
}

// readSuspended reads which modules are suspended: none of them may run when the operator starts (H27). Without the
// permission none is; who watches the objects says so.
func (b *boot) readSuspended(ctx context.Context) (map[string]bool, error) {
	if b.ModuleObjects == nil {
		return nil, nil
	}
	suspended, err := b.ModuleObjects.Suspended(ctx)
	if apierrors.IsForbidden(err) {
		err = nil
	}
	return suspended, err // not nil: the watch adds to it
}

// readSecret reads the Secret at the start. It does not wait for the right to read: the Secret is optional, and a role
// without it must not stop the start.
func (b *boot) readSecret(ctx context.Context) (content kube.ConfigMap, err error) {
	if b.secretOff = b.Secret == nil; b.secretOff {
		return content, nil
	}
	content, err = b.Secret.Read(ctx)
	if b.secretOff = errors.Is(err, kube.ErrForbidden); b.secretOff {
		b.Log.Warn("values from a Secret are not used: it may not be read; config values that schemas mark with x-secret are written to the ConfigMap; let the role get, list, watch, create and update it, and restart", "err", err)
		return content, nil
	}
	return content, err
}

// readLastValid reads what was kept. What is another client's stays so.
func (b *boot) readLastValid(ctx context.Context) (*kube.LastValid, error) {
	kept, err := b.LastValid.Read(ctx)
	if errors.Is(err, kube.ErrNotLastValid) {
		err = backoff.Permanent(err)
	}
	return kept, err
}

// waitFor reads what the start needs, again and again until the API server gives it, or ctx ends: the operator may be
// started before the API server.
func waitFor[T any](ctx context.Context, b *boot, what string, read func(context.Context) (T, error)) (T, error) {
	tell := func(err error, in time.Duration) {
		b.Log.Error(what+" cannot be read, will retry; check that the API server is up and that the kubeconfig and the role allow reading it", "in", in, "err", err)
		b.waits(fmt.Sprintf("%s cannot be read: %v", what, err))
	}
	defer b.waits("")
	again := backoff.WithContext(supervisor.Backoff(), ctx)
	return backoff.RetryNotifyWithData(func() (T, error) { return read(ctx) }, again, tell)
}

// useValid puts the contents of the cluster in force. Invalid values stop the
// start (D16, D36), unless last valid contents are kept (P3): then those of both are in force, as
// they were together. When that is so, a ConfigMap or Secret that does not exist is no order to
// remove what it held (P1).
func (b *boot) useValid(ctx context.Context) error {
	refused := b.use(b.inCluster)
	noConfigMap, noSecret := !b.inCluster.configMap.Exists(), !b.secretOff && !b.inCluster.secret.Exists()
	// The last valid contents are needed only when something is wrong, or absent.
	if b.LastValid == nil || refused == nil && !noConfigMap && !noSecret {
		return refused
	}
	kept, err := waitFor(ctx, b, b.LastValid.String(), b.readLastValid)
	switch {
	case err != nil:
		return errors.Join(refused, fmt.Errorf("it is unknown which values were the last valid ones: %w", err))
	case kept == nil && refused != nil:
		return fmt.Errorf("%w; there are no last valid values yet in %s", refused, b.LastValid)
	case kept == nil:
		return nil
	case noConfigMap && len(kept.Config) > 0:
		refused = deletedError("the ConfigMap")
	case noSecret && len(kept.Secret) > 0:
		refused = deletedError("the Secret with values")
	case refused == nil:
		return nil
	}
	if b.secretOff { // it may not be read any more; its values must not come back from the copy
		kept.Secret = nil
	}
	if err := b.use(contents{kube.ConfigMap{Data: kept.Config}, kube.ConfigMap{Data: kept.Secret}}); err != nil {
		return fmt.Errorf("%w; the last valid values, in %s, are no longer valid: %w", refused, b.LastValid, err)
	}
	b.Log.Warn("the operator starts with the last valid values", "from", b.LastValid.String())
	return nil
}

// schemas are those of all sections, from files alone. No script was asked, and no hook has set a flag (D37).
func (b *boot) schemas() plan.Schemas {
	return plan.Schemas{Sections: b.templates, Modules: b.tree.Modules}
}

// use puts contents in force, if they are valid.
func (b *boot) use(all contents) error {
	doc, err := b.schemas().Check(all.configMap.Data, all.secret.Data)
	if err == nil {
		b.inForce, b.doc = all, doc
	}
	return err
}

// section is one with its parts of what is in force, without them if they do not fit the section of a disabled
// module (D37).
func (b *boot) section(key string) *values.Section {
	now := time.Now()
	by := values.Origin{Revision: b.inForce.configMap.ResourceVersion, Time: now}
	secretBy := values.Origin{Revision: b.inForce.secret.ResourceVersion, Time: now}
	section, err := plan.Stored(b.templates[key], b.doc, by, secretBy)
	if err != nil {
		b.Log.Error("config values of a disabled module are not valid and are left out until they are fixed", "key", key, "err", err)
		return b.templates[key]
	}
	b.Secrets.Know(key, section.Secrets().Texts())
	return section
}
