package actors

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// assignment is a task with what a run must do for it, and how far it is.
type assignment struct {
	Job
	queue *actor.PID
	work  func(*supervisor.Run) (any, error)
	// begins, succeeded, failed and ended are optional. They run in the mailbox of the owner:
	// begins before each attempt, failed after each failed one, the others at most once.
	begins    func(t messages.Task, first bool)
	succeeded func(actor.Context, any)
	failed    func(supervisor.Attempt)
	ended     func()
	// leaves: after its first failure, or a minute, the queue continues without the task (option isolate). The run
	// goes on with its retries.
	leaves bool
	// release: the task changes the release of the module, and has it for itself. While its objects cannot be judged,
	// because an API that they need is away, it leaves the queue, too (P13).
	release bool

	failing *view.FailingTask // after a failed attempt
	out     bool              // its queue continues without it, so its end sends no TaskDone
	held    bool              // if it fails, its queue has it back
	slot    bool              // it has left its queue during this attempt, with one of the places for that
}

// leavesAfter is how long a run or a delete stays the head of its queue, with option isolate.
const leavesAfter = time.Minute

// leaveDue is sent by a timer. If too many tasks are out, it is sent again after leaveAgain.
type leaveDue struct{ task string }

const leaveAgain = 5 * time.Second

// ofRelease is the task that has the release for itself; nil for none.
func (o *owner) ofRelease() *assignment {
	for _, t := range o.tasks {
		if t.release {
			return t
		}
	}
	return nil
}

// attemptFailed notes a failed attempt and decides what the queue does meanwhile: it waits with the task at its head,
// or continues without it.
func (o *owner) attemptFailed(t *assignment, at supervisor.Attempt) {
	o.program.NoticeFailure(o.log, t.Task, at)
	t.failing = &view.FailingTask{
		Task: t.Task.What(), Attempts: at.Number, RetryAt: time.Now().Add(at.In), Error: at.Err.Error(),
		Hook: t.Task.Hook(), Public: ForEverybody(at.Err),
	}
	if t.failed != nil {
		t.failed(at)
	}
	o.freeSlot(t)
	defer o.self.publish() // a failure is no message
	switch {
	case t.out || at.Final:
	case t.leaves || t.release && helm.IsAway(at.Err):
		o.leave(t, "failed", ForEverybody(at.Err))
	default:
		o.program.Send(o.program.PID(queuePath+t.Task.Queue), messages.TaskFailed{ID: t.Task.InQueue()})
	}
}

// leave lets the queue continue without a task that has not ended.
func (o *owner) leave(t *assignment, what, why string) {
	t.out = true
	what = fmt.Sprintf("%s %s and goes on outside of the main queue; other modules continue", t.Task, what)
	o.log.Warn("module is parked: " + what)
	o.program.Notify(kube.Notice{Warning: true, Reason: "ModuleParked", Message: strings.TrimSuffix(what+": "+why, ": ")})
	taskEnded(o.program, t.Task, t.queue)
}

// leaveDue lets a task that has lasted a minute leave its queue, unless too many are out already.
func (o *owner) leaveDue(ctx actor.Context, msg leaveDue) {
	t := o.tasks[msg.task]
	if t == nil || t.out || !o.Runs.Lives(msg.task) {
		return
	}
	if t.slot = o.program.Out.TryAcquire(1); !t.slot {
		o.program.SendLater(ctx, leaveAgain, msg)
		return
	}
	o.leave(t, "takes longer than a minute", "")
}

func (o *owner) freeSlot(t *assignment) {
	if t.slot {
		o.program.Out.Release(1)
		t.slot = false
	}
}

// endAttempts ends a failing task for its queue, or until its queue executes it again.
func (o *owner) endAttempts(msg messages.EndAttempts) {
	for _, id := range slices.Sorted(maps.Keys(o.tasks)) {
		if t := o.tasks[id]; t.Task.InQueue() == msg.ID && !t.out {
			t.held = msg.Hold
			o.Runs.LastAttempt(id)
		}
	}
}

// cancelAll ends all tasks, those that their queue wants to hold, too.
func (o *owner) cancelAll() {
	for _, t := range o.tasks {
		t.held = false
	}
	o.awaiting = nil
	o.Runs.CancelAll(supervisor.ErrCancelled)
}

// start gives a task to a run. Its queue receives TaskDone once: here when the run has ended, or earlier when the task
// leaves the queue.
func (o *owner) start(ctx actor.Context, t *assignment) {
	o.tasks[t.Task.ID] = t
	if t.leaves && !t.out {
		o.program.SendLater(ctx, leavesAfter, leaveDue{t.Task.ID})
	}
	o.Runs.Start(ctx, supervisor.Task{
		ID: t.Task.ID, AllowFailure: t.Task.AllowFailure, Work: t.attempt(o.program), Succeeded: t.succeeded,
		Begins: func() {
			*t.Known = o.self.known()
			if t.Known.Out = t.out; t.begins != nil {
				t.begins(t.Task, t.failing == nil)
			}
		},
		Failed: func(at supervisor.Attempt) { o.attemptFailed(t, at) },
		Ended: func(ctx actor.Context, done bool) {
			// startNext comes last, because the next task must find the release free.
			held := t.held && !done
			if held { // it goes on with what it has left
				o.left[t.Task.ID] = t.Due
			} else {
				o.dropEffects(t.Due)
			}
			if t.ended != nil {
				t.ended()
			}
			delete(o.tasks, t.Task.ID)
			o.freeSlot(t)
			if !t.out {
				ctx.Send(t.queue, messages.TaskDone{ID: t.Task.ID, Held: held})
			}
			o.startNext(ctx)
		},
	})
}

// attempt is the work of a run. A run that has left its queue first waits until few enough others are out.
func (a *assignment) attempt(p *program) func(run *supervisor.Run) (any, error) {
	return func(run *supervisor.Run) (any, error) {
		if a.Known.Out {
			run.Step("wait until fewer modules run outside of the queue")
			if err := p.Out.Acquire(run.Context(), 1); err != nil {
				return nil, err
			}
			defer p.Out.Release(1)
			if err := a.ask(run, handOver{}); err != nil { // that may have taken a while
				return nil, err
			}
		}
		return a.work(run)
	}
}

// startAlone starts a task that needs the release of the module for itself (two Helm operations on one release corrupt
// its records). If an earlier one has it, that is out of its queue, and the new one joins it: the queue continues, and
// after the attempt in progress the new one runs in its place, with the current values.
func (o *owner) startAlone(ctx actor.Context, a *assignment) {
	before := o.ofRelease()
	if before == nil {
		o.start(ctx, a)
		return
	}
	if a.Task = a.Task.Instead(before.Task); o.next != nil {
		a.Task = a.Task.Instead(o.next.Task)
	}
	a.out, o.next = true, a
	taskEnded(ctx, a.Task, a.queue)
	o.Runs.LastAttempt(before.Task.ID)
}

// startNext starts the task that waits for the release.
func (o *owner) startNext(ctx actor.Context) {
	if a := o.next; a != nil && o.ofRelease() == nil {
		o.next = nil
		o.start(ctx, a)
	}
}

// listFailing lists the tasks that wait for another attempt, in the order of their IDs, so that a
// page does not change from one publication to the next.
func (o *owner) listFailing() []view.FailingTask {
	var list []view.FailingTask
	for _, id := range slices.Sorted(maps.Keys(o.tasks)) {
		if t := o.tasks[id]; t.failing != nil {
			list = append(list, *t.failing)
		}
	}
	return list
}

// dropEffects gives up what an ended task has left unfinished. A Synchronization among it has to
// end at the monitors, or they would hold back the events of its binding without end (C40).
func (o *owner) dropEffects(due map[step]effects) {
	for _, e := range due {
		if e.ended.Run != 0 {
			e.ended.Seen = nil
			o.program.Send(o.program.PID(monitorsPath), e.ended)
		}
	}
}

// runAgain queues a module run that the module's own hooks have caused. If it waits, because it is part of a loop, any
// run of the module that begins meanwhile serves it.
func (m *module) runAgain(ctx actor.Context, head bool, t messages.Task) {
	if later := m.program.enqueueUnlooped(ctx, m.log, head, t); later != nil {
		m.delayed.Stop()
		m.delayed, m.loop = later, "hooks run in a loop and are slowed down; fix the first of these that makes a change in each run: "+chainText(t.Cause)
	}
}

// tellUnstable reports a chart that renders differently from the same inputs (H6).
func (m *module) tellUnstable(t messages.Task, o helm.Outcome) {
	if !o.Unstable {
		return
	}
	const text = "the chart renders a different manifest each time from the same values, so its release is left as it is"
	m.program.Notify(kube.Notice{Warning: true, Reason: "UnstableRender", Message: fmt.Sprintf("module %s: %s", m.name, text)})
	m.log.Warn("unstable render", "err", text+"; use values, or look up what was generated before, instead of using random values or the time", "revision", o.Revision)
	m.program.Metrics.Loops.WithLabelValues(activation(t.Cause)).Inc()
}

// application is a hook result on its way to become values. It waits while an earlier one is
// written to the ConfigMap.
type application struct {
	msg   messages.ApplyHookResult
	from  *actor.PID
	next  *values.Section // what will be the section
	flags flagChanges
	saved bool // the ConfigMap has its part
}

// applier is where owners differ: what runs get to know, what a patch may touch, and what follows a change.
type applier interface {
	// known returns what the owner hands over to a run.
	known() known
	// patches checks what the patches of a hook touch and returns the parts for the section.
	patches(hooks.Result) (config, memory values.Patch, flags flagChanges, err error)
	// committed is called after a result has become values.
	committed(ctx actor.Context, msg messages.ApplyHookResult, changed bool, flags flagChanges)
	// reconcile queues a run of the module, or a reload. It is also called when a deferred Synchronization has
	// succeeded, or the snapshots are complete for which a hook was skipped: what was done without that hook
	// is done again.
	reconcile(ctx actor.Context, cause messages.Cause)
	// publish shows the owner on pages, in metrics and in its object of kind Module.
	publish()
}

// flagChanges are the opinions of a global hook on enabled modules (D25).
type flagChanges struct {
	config, memory []values.Flag
	// configChanged: the ConfigMap said something else before.
	configChanged bool
}

// apply is step 3 of the way of a task (docs/architecture.md): check everything, then commit (D26). Results of hooks
// are applied one after the other: one that must be written to the ConfigMap waits for the config actor, and those
// behind it wait for that (D28). Otherwise a second result would be checked against values that the first is about to
// change.
//
// A patch that changes nothing in the ConfigMap is not written: an own write would show as an edit
// in the audit log (D27).
func (o *owner) apply(ctx actor.Context, a application) {
	switch {
	case !o.Runs.Lives(a.msg.Origin.Task): // it was cancelled (E11, E15)
		return
	case o.applying != nil:
		o.waiting = append(o.waiting, a)
		return
	}
	config, memory, flags, err := o.self.patches(a.msg.Result)
	if err == nil {
		flags.configChanged = a.flags.configChanged
		a.flags = flags
		a.next, err = o.patched(config, memory, a.msg.Origin)
	}
	if err != nil {
		o.refuseResult(a, fmt.Errorf("hook %s: its result is refused: %w", a.msg.Hook, err))
		return
	}
	configChanged := len(config) > 0 && a.next.Stored().Checksum() != o.section.Stored().Checksum()
	if a.saved || !configChanged && len(flags.config) == 0 {
		o.commit(ctx, a)
		return
	}
	save := messages.SaveConfig{Flags: flags.config}
	if configChanged {
		save.Key, save.Base = o.section.Key(), o.section.Stored().Checksum()
		save.Section, save.Secret = a.next.Stored().InConfigMap(), a.next.Stored().Secret
	}
	o.applying = &a
	ctx.Request(o.program.PID(configPath), save)
}

// patched applies both patches to a copy of the section and validates the result with both schemas
// (D36). While there is no Secret with values, config patches go to the ConfigMap as a whole.
func (o *owner) patched(config, memory values.Patch, by values.Origin) (*values.Section, error) {
	next := o.section
	var err error
	if len(config) > 0 {
		if next, err = next.PatchConfig(config, by, !o.program.SecretOff.Load()); err == nil {
			err = next.ValidateConfig()
		}
		if err != nil {
			return nil, fmt.Errorf("config values patch: %w", err)
		}
	}
	if len(memory) > 0 {
		if next, err = next.Patch(memory, by); err != nil {
			return nil, fmt.Errorf("values patch: %w", err)
		}
	}
	if next != o.section {
		err = next.ValidateValues()
	}
	return next, err
}

// configSaved continues with the result that waited for the ConfigMap, and then with those that
// wait behind it. On a conflict it starts over: config has sent the new section before this answer,
// so the mailbox has it already.
func (o *owner) configSaved(ctx actor.Context, msg messages.ConfigSaved) {
	a := o.applying
	o.applying = nil
	switch lives := o.Runs.Lives(a.msg.Origin.Task); {
	case !lives && !msg.Conflict && msg.Err == nil: // it was cancelled, but the ConfigMap says so by now (E11, E15)
		o.setConfig(messages.SetConfig{Section: a.next.Stored().InConfigMap(), Origin: a.msg.Origin, Secret: a.next.Stored().Secret, SecretOrigin: a.msg.Origin})
	case msg.Conflict: // the new section has arrived before this answer
		o.apply(ctx, *a)
	case msg.Err != nil:
		o.refuseResult(*a, fmt.Errorf("hook %s: save config values: %w", a.msg.Hook, msg.Err))
	default: // the section may be another one since, if only flags were written: then the patches apply to that
		a.saved, a.flags.configChanged = true, msg.FlagsChanged
		o.apply(ctx, *a)
	}
	for o.applying == nil && len(o.waiting) > 0 {
		next := o.waiting[0]
		o.waiting = o.waiting[1:]
		o.apply(ctx, next)
	}
}

// commit makes the result the section, and answers the run. From then on the run does not repeat the
// hook (D26).
func (o *owner) commit(ctx actor.Context, a application) {
	changed := a.next.Checksum() != o.section.Checksum() // D27
	a.msg.Cause.Detail += changedPaths(a.next, o.section, a.flags)
	o.set(a.next)
	now := o.self.known()
	now.Changed = changed
	o.program.Send(a.from, handed{Known: now})
	o.self.committed(ctx, a.msg, changed, a.flags)
}

// changedPaths names what a hook has changed, for the chain of causes: what it has written as it was is no cause.
func changedPaths(after, before *values.Section, flags flagChanges) string {
	paths := after.Diff(before)
	for _, flag := range slices.Concat(flags.config, flags.memory) {
		paths = append(paths, flag.Key)
	}
	const changed = " changed "
	return strings.TrimSuffix(changed+messages.Few(3, paths), changed)
}

// refuse answers a run whose result has no effect (D26). The run fails and repeats the hook.
func (o *owner) refuseResult(a application, err error) {
	o.program.Send(a.from, handed{Known: o.self.known(), Err: err})
}

// onFiles takes over static values and schemas that may have changed on disk. config has checked them, but not
// together with what hooks have set.
func (o *owner) onFiles(files *values.Section) { o.takeOver(o.section.OnFiles(files)) }

// setConfig replaces the ConfigMap and Secret layers; saved patches are replayed over them (D22).
// config has checked the sections of enabled modules, but not those of disabled ones (D37): these
// keep their old values until the new ones are fixed.
func (o *owner) setConfig(msg messages.SetConfig) {
	o.takeOver(o.section.WithStored(msg.Section, msg.Secret, msg.Origin, msg.SecretOrigin))
}

// takeOver puts values from outside in force. What has failed is retried at once: the change may be the fix (F8).
func (o *owner) takeOver(next *values.Section, err error) {
	if err != nil {
		o.log.Error("new values are refused", "err", err)
	} else {
		o.set(next)
	}
	o.Runs.RetryNow()
}

// set replaces the section. Its secrets are made known first, so that no log or page can show one
// of them.
func (o *owner) set(section *values.Section) {
	o.program.Secrets.Know(section.Key(), section.Secrets().Texts())
	o.section = section
	if o.name == messages.GlobalHooks {
		o.program.Global.Store(section)
	}
}
