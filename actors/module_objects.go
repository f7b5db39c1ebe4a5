package actors

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// moduleObjects writes what people are shown of each module into an object of kind Module, and
// takes the requests of people from there (J14 to J17). Nothing depends on it: without the kind, or
// the rights, it waits for them.
//
// Whoever publishes a status notes which module has changed (Program.Changed). Once a second, if
// something was noted, the objects of these modules are compared with what they should be, and
// those that differ are written.
type moduleObjects struct {
	program *program
	ctx     context.Context // ends with the program
	wake    func()          // has what is noted compared

	seen   map[string]kube.ModuleObject // as the watch, or the answer to a write, has shown them
	listed bool                         // seen is complete: before that, an object that is not in it may exist
	// wrote are the statuses that were written last, by module.
	wrote map[string]wroteStatus
	// handled are the last requests that were acted on, also while their status cannot be written (J16).
	handled map[string]handledRequests
	// later is when an object is tried again that could not be written; failed counts errors in a row.
	later     map[string]time.Time
	failed    int
	suspended map[string]bool     // by spec.suspend, as converge knows it
	told      metav1.StatusReason // why objects are not written, as it was logged
	pause     time.Time           // no attempt before; zero for none
}

// wroteStatus is a status that was written, and what the API server has stored of it. They differ
// where the definition of the kind in the cluster is older and drops fields; without this the same
// status would be written each second.
type wroteStatus struct{ want, stored string }

type (
	// modulesSeen has news of the objects.
	modulesSeen struct{ news kube.ModuleNews }
	// objectsDue has the noted modules compared, and lookAtObjects all of them.
	objectsDue    struct{}
	lookAtObjects struct{}
	// handledRequests are values of the two annotations.
	handledRequests struct{ run, retry string }
)

const (
	// objectsLook is the time after which all modules are compared: some of what is shown changes without a message, such as
	// a hook that hangs, or the deadline of an object.
	objectsLook = 30 * time.Second
	// objectsBatch is after how long the other modules wait for the next comparison, so that what people ask for
	// does not wait until hundreds of objects are written.
	objectsBatch = 500 * time.Millisecond
	// shortRun is how long a run must last to be shown: most find the release as it should be, and are no news.
	shortRun = time.Second
	// maxFailed is after how many failed writes in a row, each of another object, none is tried for a while.
	maxFailed = 3
)

// New makes the actor; suspended are the modules that were suspended when the operator read them at the start.
func newModuleObjects(ctx context.Context, p *program, suspended map[string]bool) actor.Actor {
	return &moduleObjects{
		program: p, ctx: ctx, seen: map[string]kube.ModuleObject{}, wrote: map[string]wroteStatus{},
		handled: map[string]handledRequests{}, later: map[string]time.Time{},
		suspended: maps.Clone(suspended),
	}
}

// Receive implements actor.Actor.
func (o *moduleObjects) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		o.begin(ctx.Self())
	case modulesSeen:
		o.learn(ctx, msg.news)
	case objectsDue:
		due := o.program.Changed.Take(o.wake)
		o.compare(ctx, func(name string) bool { return due[""] || due[name] })
	case lookAtObjects:
		o.program.Changed.Note("")
		o.lookLater(ctx.Self())
	default:
		unhandled(ctx, o.program.Log)
	}
}

func (o *moduleObjects) begin(self *actor.PID) {
	o.wake = func() { o.send(self, objectsDue{}) }
	o.program.Changed.Take(o.wake)
	o.program.ModuleObjects.Watch(o.ctx, func(news kube.ModuleNews) { o.send(self, modulesSeen{news}) })
	o.lookLater(self)
}

func (o *moduleObjects) lookLater(self *actor.PID) {
	time.AfterFunc(objectsLook, func() { o.send(self, lookAtObjects{}) })
}

// send sends unless the program ends: timers and watches outlive the actor.
func (o *moduleObjects) send(self *actor.PID, message any) {
	if o.ctx.Err() == nil {
		o.program.Send(self, message)
	}
}

// learn takes over what the watch reports.
func (o *moduleObjects) learn(ctx actor.Context, news kube.ModuleNews) {
	switch {
	case news.Absent != nil:
		o.listed = false
		o.tellAbsent(news.Absent)
		return
	case news.Listed:
		o.listed, o.told, o.pause = true, "", time.Time{}
		clear(o.seen)
		for _, object := range news.All {
			o.seen[object.Name] = object
		}
		o.program.Changed.Note("")
	case news.Set != nil:
		if old, ok := o.seen[news.Set.Name]; ok && !news.Set.Newer(old) {
			return // it is what was written, or was overtaken by that
		}
		o.seen[news.Set.Name] = *news.Set
		o.program.Changed.Note(news.Set.Name)
	default:
		delete(o.seen, news.Gone)
		delete(o.wrote, news.Gone)
		delete(o.handled, news.Gone)
		delete(o.later, news.Gone)
		o.program.Changed.Note(news.Gone)
	}
	o.tellSuspended(ctx)
}

// tellSuspended sends converge which modules are suspended, if that has changed. An object that is
// gone is no order to resume (P1): it is created again as it was.
func (o *moduleObjects) tellSuspended(ctx actor.Context) {
	now := maps.Clone(o.suspended)
	for name, object := range o.seen {
		delete(now, name)
		if object.Suspend {
			now[name] = true
		}
	}
	if !maps.Equal(now, o.suspended) {
		o.suspended = now
		ctx.Send(o.program.PID(convergePath), messages.SuspensionChanged{Names: maps.Clone(now)})
	}
}

// tellAbsent logs once why there are no objects.
func (o *moduleObjects) tellAbsent(err error) {
	why := apierrors.ReasonForError(err)
	if o.told == why {
		return
	}
	if o.told = why; apierrors.IsNotFound(err) {
		o.program.Log.Info("the kind Module does not exist in the cluster, so the state of modules is not shown in objects; to enable this, apply module-crd.yaml of the chart")
		return
	}
	const fix = "allow the operator to get, list, watch, create and delete modules.addon-operator.io, and to patch their status, in its namespace; the chart does this"
	o.program.Log.Warn("objects of kind Module cannot be used; modules are not shown there, and requests in them are ignored", "err", err, "fix", fix)
	o.program.Notify(kube.Notice{Warning: true, Reason: "ModuleObjectsForbidden", Message: "Modules are not shown as objects of kind Module: " + err.Error()})
}

// compare writes the objects of the modules that are due, as far as they differ. After objectsBatch
// it notes the rest again, so that a request of a person does not wait for hundreds of writes.
func (o *moduleObjects) compare(ctx actor.Context, due func(name string) bool) {
	if !o.listed || time.Now().Before(o.pause) {
		return // all are compared when they are listed, and after the pause
	}
	converge, _ := o.program.Inspector.Status(convergePath).(view.ConvergeStatus)
	tree := o.program.Runs.Tree.Load()
	if tree == nil {
		return // nothing is known yet
	}
	// Hundreds of directories each second would be read for one module that changes, and all while the first converge runs.
	differs := notInForce(tree.UnloadedModules(func(name string) bool { return converge.Ready && due(name) }))
	modules := view.Modules(o.program.Inspector.Statuses(), o.program.Runs.Hanging(), differs, time.Now())
	modules = o.withoutGone(modules, tree, converge)
	modules = slices.DeleteFunc(modules, func(m view.Module) bool { return !due(m.Name) })
	began := time.Now()
	for i, m := range modules {
		if o.ctx.Err() != nil {
			return
		}
		if time.Since(began) > objectsBatch {
			for _, rest := range modules[i:] {
				o.program.Changed.Note(rest.Name)
			}
			return
		}
		if time.Now().Before(o.later[m.Name]) {
			continue
		}
		err := o.show(ctx, m, converge)
		if err == nil {
			o.failed = 0
			delete(o.later, m.Name)
		} else if !o.goesOn(m.Name, err) {
			return
		}
	}
}

// goesOn reports whether the other objects are written after an error with one. What refuses a
// single object, such as a webhook or a quota, must not delay the others. Without the kind or the
// rights, or when nothing can be written, all wait.
func (o *moduleObjects) goesOn(name string, err error) bool {
	_, exists := o.seen[name]
	switch {
	case o.ctx.Err() != nil:
		return true // the loop looks
	case apierrors.IsNotFound(err) && !exists: // it cannot be created, because its kind is not served
		o.tellAbsent(err)
		o.pause = time.Now().Add(objectsLook)
		return false
	case apierrors.IsNotFound(err): // it was deleted a moment ago
		delete(o.seen, name)
		o.program.Changed.Note(name)
		return true
	}
	o.later[name] = time.Now().Add(objectsLook)
	if o.failed++; o.failed < maxFailed {
		o.program.Log.Warn("an object of kind Module cannot be written, will retry", "module", name, "err", err, "in", objectsLook)
		return true
	}
	o.failed, o.pause = 0, time.Now().Add(objectsLook)
	if kube.NoModuleObjects(err) {
		o.tellAbsent(err)
	}
	return false
}

// gone is why a module without a directory is off.
const gone = "its directory is gone"

// withoutGone deletes the objects of modules whose directories are gone, and leaves these modules
// out of what is written. An object stays, and says that the directory is gone, if a person has
// created or suspended it, or while the absence may be a mistake (P1). Nothing is deleted before
// the first converge is over.
func (o *moduleObjects) withoutGone(modules []view.Module, tree *addons.Tree, converge view.ConvergeStatus) []view.Module {
	there := map[string]bool{}
	for _, m := range slices.Concat(tree.Modules, tree.Broken) {
		there[m.Name] = true
	}
	modules = slices.DeleteFunc(modules, func(m view.Module) bool { return !there[m.Name] })
	if !converge.Ready || converge.Phase != view.ConvergeIdle {
		return modules
	}
	shown := maps.Clone(o.seen)
	for name := range o.suspended {
		if _, exists := shown[name]; !exists { // its object was deleted: what keeps the release is created again
			shown[name] = kube.ModuleObject{Name: name, Ours: true, Suspend: true}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(shown)) {
		object := shown[name]
		switch {
		case there[name]:
		case !object.Ours, object.Suspend, purgeHeld(converge, name), len(tree.Empty) > 0:
			m := view.Module{Name: name, State: string(view.Disabled), Off: gone}
			m.Phase = view.Disabled
			if object.Suspend {
				m.State, m.Maintenance = string(view.Suspended), values.Suspended
			}
			modules = append(modules, m)
		default:
			err := o.program.ModuleObjects.Delete(o.ctx, object)
			if apierrors.IsConflict(err) {
				continue // a person has changed it: the watch brings how it is now
			}
			if err != nil {
				o.goesOn(name, err)
				continue
			}
			delete(o.seen, name)
			delete(o.wrote, name)
		}
	}
	return modules
}

// purgeHeld reports whether the purge of a release is held back.
func purgeHeld(converge view.ConvergeStatus, release string) bool {
	return converge.HeldPurge != nil && slices.Contains(converge.HeldPurge.Releases, release)
}

// show writes the object of a module when it differs.
func (o *moduleObjects) show(ctx actor.Context, m view.Module, converge view.ConvergeStatus) error {
	object, exists := o.seen[m.Name]
	early := o.isEarly(m, object, converge)
	if !exists && early {
		return nil
	}
	if !exists {
		var err error
		if object, err = o.program.ModuleObjects.Create(o.ctx, m.Name, o.suspended[m.Name]); err != nil {
			return err
		}
		o.keep(ctx, object, object)
	}
	if o.request(ctx, &object, m) {
		o.program.Changed.Note(m.Name) // what comes of it is shown in a moment
		return nil
	}
	if handled(object) != handled(o.seen[m.Name]) {
		object.Status.LastRun = nil // a run that was requested is news, also if it has changed nothing
	} else if early {
		return nil
	}
	// What spec asks for is observed when the module does it.
	observed := object
	if object.Suspend != (m.Maintenance == values.Suspended) {
		observed.Generation = object.Status.ObservedGeneration
	}
	m.Gone = m.Off == gone && !object.Ours
	if purgeHeld(converge, m.Name) {
		m.PurgeHeld = converge.HeldPurge
	}
	status := Status(m, Facts{Object: observed, Namespace: o.program.Namespace, Hide: o.program.Secrets.Hide, Now: time.Now()})
	want, stored := status.String(), o.seen[m.Name].Status.String()
	if exists && (want == stored || o.wrote[m.Name] == wroteStatus{want, stored}) {
		return nil
	}
	config, _ := o.program.Inspector.Status(configPath).(view.ConfigStatus)
	status.ObservedConfig = config.Revision // alone it is no reason to write
	now, err := o.program.ModuleObjects.Apply(o.ctx, m.Name, status)
	if apierrors.IsInvalid(err) { // the same would be refused again
		o.wrote[m.Name] = wroteStatus{want, stored}
	}
	if err != nil {
		return err
	}
	o.wrote[m.Name] = wroteStatus{status.String(), now.Status.String()}
	o.keep(ctx, object, now)
	return nil
}

// isEarly reports whether what there is to show of a module is no news yet: its run has begun a moment ago, which is
// looked at again, or this process has not run it, and an earlier one has written its object.
func (o *moduleObjects) isEarly(m view.Module, object kube.ModuleObject, converge view.ConvergeStatus) bool {
	if m.LastRun == nil {
		return !converge.Ready && len(object.Status.Conditions) > 0 && m.Maintenance == ""
	}
	began := m.LastRun.Took == 0 && time.Since(m.LastRun.Began) < shortRun
	if began {
		o.program.Changed.Note(m.Name)
	}
	return began
}

// handled are the requests that the status of an object repeats.
func handled(object kube.ModuleObject) handledRequests {
	return handledRequests{object.Status.LastHandledRequestedAt, object.Status.LastHandledRetryRequestedAt}
}

// keep remembers the answer to a write. It may contain what people have changed since the object
// was read; the watch brings that later, but as nothing new.
func (o *moduleObjects) keep(ctx actor.Context, read, now kube.ModuleObject) {
	o.seen[now.Name] = now
	if now.Generation != read.Generation || now.RequestedAt != read.RequestedAt || now.RetryRequestedAt != read.RetryRequestedAt {
		o.program.Changed.Note(now.Name)
	}
	if now.Suspend != o.suspended[now.Name] {
		o.tellSuspended(ctx)
	}
}

// request does once what people have requested of a module by annotations (J16). A request to a
// suspended module waits; others are served in every phase, because what a person wants to have retried may be what keeps
// the first converge from its end. The values that were handled are kept in memory, too: their status may not be writable,
// and the request must not be repeated then. It reports whether a run was queued.
func (o *moduleObjects) request(ctx actor.Context, object *kube.ModuleObject, m view.Module) (queued bool) {
	if object.Suspend || m.Maintenance == values.Suspended {
		return false
	}
	run, retry := object.RequestedAt, object.RetryRequestedAt
	done := o.handled[m.Name]
	if run == done.run && run != "" {
		object.Status.LastHandledRequestedAt = run
	}
	if retry == done.retry && retry != "" {
		object.Status.LastHandledRetryRequestedAt = retry
	}
	o.handled[m.Name] = handledRequests{run, retry}
	fails := slices.ContainsFunc(m.Failing, func(f view.FailingTask) bool { return f.Hook == "" })
	if run != "" && run != object.Status.LastHandledRequestedAt {
		object.Status.LastHandledRequestedAt = run
		o.program.Log.Info("a run is requested", "module", m.Name, "requestedAt", run)
		switch {
		case !m.Enabled: // there is nothing to run, unless a discovery that fails enables it
			ctx.Send(o.program.PID(convergePath), messages.RetryNow{})
		case fails:
			ctx.Send(o.program.Owner(m.Name), messages.RetryNow{})
		default:
			queued = true
			o.program.Enqueue(ctx, false, o.program.NewTask(m.Name, messages.RunModule{}, messages.Cause{Activation: messages.ByHand, Detail: "requestedAt " + run}))
		}
	}
	if retry != "" && retry != object.Status.LastHandledRetryRequestedAt {
		object.Status.LastHandledRetryRequestedAt = retry
		o.program.Log.Info("a retry is requested", "module", m.Name, "retryRequestedAt", retry)
		ctx.Send(o.program.Owner(m.Name), messages.RetryNow{})
		ctx.Send(o.program.PID(convergePath), messages.RetryNow{})
	}
	return queued
}

// The conditions of an object of kind Module. kstatus computes the status of the object from them:
// a True Stalled means failed, a True Reconciling in progress, else Ready decides.
const (
	Ready       = "Ready"
	Reconciling = "Reconciling"
	Stalled     = "Stalled"
)

// The limits of what a status holds, so that an object stays small whatever a module does: hooks
// and charts of others decide how long their texts are. They are within those of
// deploy/chart/module-crd.yaml: the API server refuses a status that exceeds one of these.
const (
	maxText   = 1000     // bytes
	maxName   = 250      // bytes
	maxListed = 20       // elements of a list
	maxFields = 10       // fields of one drifted object
	maxLooked = 16 << 10 // bytes of a text that are cleaned before it is cut to maxText
)

// Facts are what a status says and the module itself does not know.
type Facts struct {
	// Object is the one in the cluster, the status in it included; zero when there is none yet. It
	// is not changed. Its generation is the one that the status is about, and its conditions keep
	// the times of their last transitions.
	Object kube.ModuleObject
	// Namespace is that of the operator, for releases of modules that name none.
	Namespace string
	// Hide masks secrets; nil for no secrets.
	Hide func(string) string
	// Now is the time of transitions.
	Now time.Time
}

// Status is what an object says of a module. With equal input and conditions that do not change it
// is the same at any time, so that the caller writes only what differs (J15). Handled requests are
// copied from the object, as is the observed ConfigMap: the caller sets them.
func Status(m view.Module, f Facts) kube.ModuleStatus {
	b := builder{m, f}
	old := f.Object.Status
	s := kube.ModuleStatus{
		ObservedGeneration: f.Object.Generation, Phase: b.name(m.State), Enabled: m.Enabled, EnabledReason: b.text(cmp.Or(m.Off, m.On)),
		Order: m.Order, Maintenance: m.Maintenance, LastRun: b.lastRun(), Hooks: b.hooks(), Objects: b.health(), Drift: b.drift(), Problems: b.problems(),
		ObservedConfig: old.ObservedConfig, LastHandledRequestedAt: old.LastHandledRequestedAt, LastHandledRetryRequestedAt: old.LastHandledRetryRequestedAt,
		Conditions: own(old.Conditions),
	}
	// The revision is known from the last run in this process; that of a disabled module is
	// deleted.
	if m.Enabled && m.Release > 0 {
		s.Release = &kube.ModuleRelease{Name: m.Name, Namespace: cmp.Or(m.Namespace, f.Namespace), Revision: m.Release}
	}
	if m.Version != "" || m.AppVersion != "" {
		s.Chart = &kube.ModuleChart{Version: b.name(m.Version), AppVersion: b.name(m.AppVersion)}
	}
	// A run that has changed nothing is no news, or each reload would write the objects of all modules. What the
	// object shows is then the run that made the revision.
	before := meta.FindStatusCondition(old.Conditions, Ready)
	if m.LastRun != nil && m.LastRun.Unchanged && old.LastRun != nil && before != nil && before.Reason == view.Succeeded &&
		old.Release != nil && s.Release != nil && *old.Release == *s.Release {
		s.LastRun, b.LastRun = old.LastRun, &view.ModuleRun{Release: old.LastRun.Result}
	}
	v := b.verdict()
	isReady, reconciling, stalled := ready(v)
	b.set(&s, Ready, isReady, v)
	b.set(&s, Reconciling, reconciling, v)
	b.set(&s, Stalled, stalled, v)
	return s
}

// own are the conditions that the operator writes; conditions of other writers are not applied, so
// they stay as they are. It returns a copy, because builder.set writes into it, and the object may
// be in use elsewhere.
func own(all []metav1.Condition) []metav1.Condition {
	return slices.DeleteFunc(slices.Clone(all), func(c metav1.Condition) bool {
		return !slices.Contains([]string{Ready, Reconciling, Stalled}, c.Type)
	})
}

// builder makes the parts of a status. Texts from outside of this package go through text or name,
// which mask, clean and cut them.
type builder struct {
	view.Module
	f Facts
}

// set sets a condition; the time of its last transition stays while its status does.
func (b builder) set(s *kube.ModuleStatus, condition string, status metav1.ConditionStatus, v view.Verdict) {
	c := metav1.Condition{
		Type: condition, Status: status, Reason: v.Reason, Message: b.text(v.Message), ObservedGeneration: s.ObservedGeneration,
		LastTransitionTime: second(b.f.Now),
	}
	if condition != Ready && status == metav1.ConditionFalse {
		c.Message = "" // Ready has it
	}
	meta.SetStatusCondition(&s.Conditions, c)
}

// second is a time as the JSON of an object has it: in UTC, without fractions.
func second(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// verdict is what is said of the module. The errors in it are the public ones: others may quote the output of hooks and
// values, which must not be in an object (J14).
func (b builder) verdict() view.Verdict {
	b.Failing = slices.Clone(b.Failing)
	for i := range b.Failing {
		b.Failing[i].Error, b.Failing[i].RetryAt = b.Failing[i].Public, time.Time{}
	}
	v := view.Judge(b.Module)
	v.Message = cmp.Or(v.Message, "the module is "+b.State)
	return v
}

// ready is a verdict in the words of conditions (kstatus). At most one of reconciling and stalled is set: reconciling
// says that waiting may be enough, stalled that a person has to act. Both are unset when the module is as it should be,
// or suspended.
func ready(v view.Verdict) (ready, reconciling, stalled metav1.ConditionStatus) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	switch v.Reason {
	case view.Succeeded, view.Off:
		return yes, no, no
	case view.BySuspend:
		return no, no, no
	case view.InProgress, view.ChangePending:
		return metav1.ConditionUnknown, yes, no
	case view.ProgressingWithRetry, view.HookHangs:
		return no, yes, no
	}
	return no, no, yes
}

func (b builder) lastRun() *kube.ModuleLastRun {
	if b.LastRun == nil {
		return nil
	}
	// Only Helm's part of a run has a result; a run that has not ended has neither result nor
	// duration.
	run := &kube.ModuleLastRun{Time: second(b.LastRun.Began), Result: b.text(b.LastRun.Release)}
	if b.LastRun.Took > 0 { // a millisecond at least: 0s would mean that it has not ended
		run.Duration = max(b.LastRun.Took, time.Millisecond).Round(time.Millisecond).String()
	}
	var causes []string
	for _, c := range slices.Concat(b.LastRun.Causes[:min(1, len(b.LastRun.Causes))], b.LastRun.Also) {
		causes = append(causes, c.String())
	}
	run.Cause = b.text(strings.Join(causes, "; "))
	return run
}

func (b builder) hooks() *kube.ModuleHooks {
	all := &kube.ModuleHooks{Total: b.Hooks}
	for _, f := range b.Failing {
		if f.Hook != "" && len(all.Failing) < maxListed {
			all.Failing = append(all.Failing, kube.ModuleFailingHook{Name: b.name(f.Hook), Attempts: f.Attempts, Message: b.text(f.Public)})
		}
	}
	for _, h := range bounded(b.Hanging) {
		all.Hanging = append(all.Hanging, b.name(h.Hook))
	}
	if all.Total == 0 && len(all.Failing) == 0 && len(all.Hanging) == 0 {
		return nil
	}
	return all
}

func (b builder) health() *kube.ModuleHealth {
	h := b.Health
	if h == nil {
		return nil
	}
	objects := &kube.ModuleHealth{
		Summary: fmt.Sprintf("%d/%d", h.Current, h.Objects), Total: h.Objects, Current: h.Current,
		InProgress: h.InProgress, Failed: h.Failed, Unknown: h.Unknown,
	}
	for _, o := range bounded(h.Unhealthy) {
		objects.Unhealthy = append(objects.Unhealthy, kube.ModuleUnhealthyObject{
			Object: b.name(o.Object), State: o.State, Message: b.text(o.Message), Since: second(o.Since),
		})
	}
	return objects
}

func (b builder) drift() (all []kube.ModuleDrift) {
	for _, d := range bounded(b.Drift) {
		one := kube.ModuleDrift{Object: b.name(d.Object)}
		for _, field := range d.Fields[:min(len(d.Fields), maxFields)] {
			one.Fields = append(one.Fields, b.name(field))
		}
		all = append(all, one)
	}
	return all
}

func (b builder) problems() (all []string) {
	for _, p := range bounded(slices.Concat(b.Problems, b.Contested)) {
		all = append(all, b.text(p))
	}
	return all
}

// bounded shares the memory of the list, which is not written to.
func bounded[T any](all []T) []T { return all[:min(len(all), maxListed)] }

// text is what people may read of a text, cut, in one line; name is a shorter one.
func (b builder) text(text string) string { return b.cut(text, maxText) }
func (b builder) name(text string) string { return b.cut(text, maxName) }

func (b builder) cut(text string, limit int) string {
	if b.f.Hide != nil { // before it is cut: a part of a secret would not be recognised
		text = b.f.Hide(text)
	}
	// Cleaning copies the text several times, so a long one is cut before. What is left is far
	// longer than what is shown, because cleaning shortens it.
	text = text[:min(len(text), maxLooked)]
	const mark = "…"
	text = hooks.Printable(strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?"))
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit-len(mark)], "") + mark
}
