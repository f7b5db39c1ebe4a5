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
	"k8s.io/apimachinery/pkg/util/wait"

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
	began   time.Time
	wake    func() // has what is noted compared

	seen      map[string]*shownObject // as the watch, or the answer to a write, has shown them
	listed    bool                    // seen is complete: before that, an object that is not in it may exist
	later     map[string]time.Time    // when an object is tried again that could not be written
	suspended map[string]bool         // by spec.suspend, as converge knows it: it is replaced, never changed
	told      metav1.StatusReason     // why there are no objects, as it was logged
}

// shownObject is an object in the cluster.
type shownObject struct {
	kube.ModuleObject
	// wrote is the status that was written last. It differs from the one that is stored where the definition of the
	// kind in the cluster is older and drops fields; without this the same status would be written again and again.
	wrote string
	// run and retry are the last requests that were acted on, also while the status cannot be written (J16).
	run, retry string
}

type (
	// modulesSeen has news of the objects.
	modulesSeen struct{ news kube.ModuleNews }
	// objectsDue has the noted modules compared.
	objectsDue struct{}
)

const (
	// objectsLook is the time after which all modules are compared: some of what is shown changes without a message,
	// such as a hook that hangs, or the deadline of an object. An object that could not be written is tried again then,
	// too.
	objectsLook = 30 * time.Second
	// objectsBatch is after how long the other modules wait for the next comparison, so that what people ask for
	// does not wait until hundreds of objects are written.
	objectsBatch = 500 * time.Millisecond
	// objectsFirst is after how long they are compared for the first time, unless the first converge has ended before:
	// until then everything changes at once.
	objectsFirst = 3 * time.Second
	// shortRun is how long a run must last to be shown: most find the release as it should be, and are no news.
	shortRun = time.Second
)

// New makes the actor; suspended are the modules that were suspended when the operator read them at the start.
func newModuleObjects(ctx context.Context, p *program, suspended map[string]bool) actor.Actor {
	return &moduleObjects{
		program: p, ctx: ctx, began: time.Now(), seen: map[string]*shownObject{}, later: map[string]time.Time{}, suspended: suspended,
	}
}

// Receive implements actor.Actor.
func (o *moduleObjects) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		o.begin(ctx.Self())
	case modulesSeen:
		o.news(ctx, msg.news)
	case objectsDue:
		o.compare(ctx, o.program.Changed.Take(o.wake))
	default:
		unhandled(ctx, o.program.Log)
	}
}

func (o *moduleObjects) begin(self *actor.PID) {
	send := func(message any) {
		if o.ctx.Err() == nil { // timers and watches outlive the actor
			o.program.Send(self, message)
		}
	}
	o.wake = func() { send(objectsDue{}) }
	o.program.Changed.Take(o.wake)
	o.program.ModuleObjects.Watch(o.ctx, func(news kube.ModuleNews) { send(modulesSeen{news}) })
	go wait.UntilWithContext(o.ctx, func(context.Context) { o.program.Changed.Note("") }, objectsLook)
}

// news takes over what the watch reports.
func (o *moduleObjects) news(ctx actor.Context, news kube.ModuleNews) {
	switch {
	case news.Absent != nil:
		o.listed = false
		o.tellAbsent(news.Absent)
	case news.Listed:
		o.listed, o.told = true, ""
		o.program.Changed.Note("")
	case news.Set != nil:
		if old := o.seen[news.Set.Name]; old == nil || news.Set.Newer(old.ModuleObject) { // else it is what was written
			o.learn(ctx, *news.Set)
			o.program.Changed.Note(news.Set.Name)
		}
	default: // an object that is gone is no order to resume (P1): it is created again as it was
		delete(o.seen, news.Gone)
		delete(o.later, news.Gone)
		o.program.Changed.Note(news.Gone)
	}
}

// learn takes over an object as it is now. The answer to a write may contain what people have changed since the object
// was read; the watch brings that later, but as nothing new.
func (o *moduleObjects) learn(ctx actor.Context, now kube.ModuleObject) *shownObject {
	object := &shownObject{now, "", now.Status.LastHandledRequestedAt, now.Status.LastHandledRetryRequestedAt}
	if old := o.seen[now.Name]; old != nil {
		if object.run, object.retry = old.run, old.retry; now.Status.String() == old.Status.String() {
			object.wrote = old.wrote
		}
		requested := now.RequestedAt != old.RequestedAt || now.RetryRequestedAt != old.RetryRequestedAt
		if requested || now.Generation != old.Generation {
			o.program.Changed.Note(now.Name)
		}
	}
	o.seen[now.Name] = object
	if now.Suspend != o.suspended[now.Name] {
		o.suspended = maps.Clone(o.suspended)
		if delete(o.suspended, now.Name); now.Suspend {
			o.suspended[now.Name] = true
		}
		ctx.Send(o.program.PID(convergePath), messages.SuspensionChanged{Names: o.suspended})
	}
	return object
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

// compare writes the objects of the modules that were noted, as far as they differ. After objectsBatch it notes the
// rest again, so that a request of a person does not wait for hundreds of writes. What refuses a single object, such
// as a webhook or a quota, does not delay the others.
func (o *moduleObjects) compare(ctx actor.Context, due map[string]bool) {
	tree := o.program.Runs.Tree.Load()
	if !o.listed || tree == nil {
		return // all are compared when they are listed
	}
	converge, _ := o.program.Inspector.Status(convergePath).(view.ConvergeStatus)
	if !converge.Ready && time.Since(o.began) < objectsFirst {
		o.program.Changed.Note("")
		return
	}
	isDue := func(name string) bool { return due[""] || due[name] }
	modules := view.Modules(o.program.Inspector.Statuses(), o.program.Runs.Hanging(), nil, time.Now())
	began := time.Now()
	for _, m := range o.withoutGone(modules, tree, converge) {
		switch {
		case o.ctx.Err() != nil, !isDue(m.Name), time.Now().Before(o.later[m.Name]):
		case time.Since(began) > objectsBatch:
			o.program.Changed.Note(m.Name)
		default:
			o.wait(m.Name, o.show(ctx, m, converge))
		}
	}
}

// wait has an object wait after an error. One that was deleted a moment ago is created then.
func (o *moduleObjects) wait(name string, err error) {
	if err == nil || o.ctx.Err() != nil {
		return
	}
	if apierrors.IsNotFound(err) {
		delete(o.seen, name)
	}
	o.later[name] = time.Now().Add(objectsLook)
	const text = "an object of kind Module cannot be written, will retry"
	o.program.Log.Warn(text, "module", name, "err", err, "in", objectsLook)
}

// gone is why a module without a directory is off.
const gone = "it has no directory"

// withoutGone deletes the objects of modules without a directory. An object stays, and says that there is no
// directory, if a person has created or suspended it, or while the absence may be a mistake (P1). Nothing is deleted
// before the first converge is over.
func (o *moduleObjects) withoutGone(modules []view.Module, tree *addons.Tree, converge view.ConvergeStatus) []view.Module {
	there := map[string]bool{}
	for _, m := range slices.Concat(tree.Modules, tree.Broken) {
		there[m.Name] = true
	}
	modules = slices.DeleteFunc(modules, func(m view.Module) bool { return !there[m.Name] })
	if !converge.Ready || converge.Phase != view.ConvergeIdle {
		return modules
	}
	names := maps.Clone(o.suspended) // also of an object that was deleted: what keeps the release is created again
	for name := range o.seen {
		names[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		m := view.Module{Name: name, State: string(view.Disabled), Off: gone}
		if m.Phase = view.Disabled; o.suspended[name] {
			m.State, m.Maintenance = string(view.Suspended), values.Suspended
		}
		if held := converge.HeldPurge; held != nil && slices.Contains(held.Releases, name) {
			m.PurgeHeld = held
		}
		switch object := o.seen[name]; {
		case there[name]:
		case o.suspended[name], !object.Ours, m.PurgeHeld != nil, len(tree.Empty) > 0:
			modules = append(modules, m)
		case time.Now().After(o.later[name]):
			err := o.program.ModuleObjects.Delete(o.ctx, object.ModuleObject)
			if o.wait(name, err); err == nil {
				delete(o.seen, name)
			}
		}
	}
	return modules
}

// show writes the object of a module when it differs.
func (o *moduleObjects) show(ctx actor.Context, m view.Module, converge view.ConvergeStatus) error {
	object := o.seen[m.Name]
	early := o.isEarly(m, object, converge)
	if object == nil {
		if early {
			return nil
		}
		created, err := o.program.ModuleObjects.Create(o.ctx, m.Name, o.suspended[m.Name])
		if err != nil {
			return err
		}
		object = o.learn(ctx, created)
	}
	if o.request(ctx, object, m) {
		o.program.Changed.Note(m.Name) // what comes of it is shown in a moment
		return nil
	}
	now := object.ModuleObject
	switch status := &now.Status; {
	case object.run != status.LastHandledRequestedAt || object.retry != status.LastHandledRetryRequestedAt:
		status.LastHandledRequestedAt, status.LastHandledRetryRequestedAt = object.run, object.retry
		status.LastRun = kube.ModuleLastRun{} // a run that was requested is news, also if it has changed nothing
	case early:
		return nil
	}
	if object.Suspend != (m.Maintenance == values.Suspended) { // what spec asks for is observed when the module does it
		now.Generation = object.Status.ObservedGeneration
	}
	status := Status(m, Facts{Object: now, Namespace: o.program.Namespace, Hide: o.program.Secrets.Hide, Now: time.Now()})
	if want := status.String(); want == object.Status.String() || want == object.wrote {
		return nil
	}
	config, _ := o.program.Inspector.Status(configPath).(view.ConfigStatus)
	status.ObservedConfig = config.Revision // alone it is no reason to write
	stored, err := o.program.ModuleObjects.Apply(o.ctx, m.Name, status)
	if err != nil {
		return err
	}
	status.ObservedConfig = stored.Status.ObservedConfig
	o.learn(ctx, stored).wrote = status.String()
	return nil
}

// isEarly reports whether what there is to show of a module is no news yet: its run has begun a moment ago, which is
// looked at again, or this process has not run it, and an earlier one has written its object.
func (o *moduleObjects) isEarly(m view.Module, object *shownObject, converge view.ConvergeStatus) bool {
	if m.LastRun == nil {
		return !converge.Ready && object != nil && len(object.Status.Conditions) > 0 && m.Maintenance == ""
	}
	began := m.LastRun.Release == "" && time.Since(m.LastRun.Began) < shortRun
	if began {
		o.program.Changed.Note(m.Name)
	}
	return began
}

// request does once what people have requested of a module by annotations (J16). A request to a suspended module
// waits; others are served in every phase, because what a person wants to have retried may be what keeps the first
// converge from its end, or the discovery that enables the module. It reports whether a run was queued.
func (o *moduleObjects) request(ctx actor.Context, object *shownObject, m view.Module) (queued bool) {
	run := object.RequestedAt != "" && object.RequestedAt != object.run
	retry := object.RetryRequestedAt != "" && object.RetryRequestedAt != object.retry
	if object.Suspend || m.Maintenance == values.Suspended || !run && !retry {
		return false
	}
	object.run, object.retry = cmp.Or(object.RequestedAt, object.run), cmp.Or(object.RetryRequestedAt, object.retry)
	o.program.Log.Info("a run or a retry is requested", "module", m.Name, "run", object.run, "retry", object.retry)
	ctx.Send(o.program.PID(convergePath), messages.RetryNow{})
	if m.Phase != view.Disabled {
		ctx.Send(o.program.Owner(m.Name), messages.RetryNow{})
	}
	fails := slices.ContainsFunc(m.Failing, func(f view.FailingTask) bool { return f.Hook == "" })
	if queued = run && m.Enabled && !fails; queued {
		cause := messages.Cause{Activation: messages.ByHand, Detail: "requestedAt " + object.run}
		o.program.Enqueue(ctx, false, o.program.NewTask(m.Name, messages.RunModule{}, cause))
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
	maxLooked = 16 << 10 // bytes of a text that are cleaned before it is cut
)

// Facts are what a status says and the module itself does not know.
type Facts struct {
	// Object is the one in the cluster, the status in it included; zero when there is none yet. It
	// is not changed. Its generation is the one that the status is about, and its conditions keep
	// the times of their last transitions.
	Object kube.ModuleObject
	// Namespace is that of the operator, for releases of modules that name none.
	Namespace string
	// Hide masks secrets.
	Hide func(string) string
	// Now is the time of transitions.
	Now time.Time
}

// Status is what an object says of a module. With equal input and conditions that do not change it
// is the same at any time, so that the caller writes only what differs (J15). Handled requests are
// copied from the object, as is the observed ConfigMap: the caller sets them.
func Status(m view.Module, f Facts) kube.ModuleStatus {
	old := f.Object.Status
	s := kube.ModuleStatus{
		ObservedGeneration: f.Object.Generation, ObservedConfig: old.ObservedConfig,
		Phase: m.State, Enabled: m.Enabled, EnabledReason: f.cut(cmp.Or(m.Off, m.On), maxText),
		Chart:                  kube.ModuleChart{Version: f.cut(m.Version, maxName), AppVersion: f.cut(m.AppVersion, maxName)},
		LastHandledRequestedAt: old.LastHandledRequestedAt, LastHandledRetryRequestedAt: old.LastHandledRetryRequestedAt,
	}
	// The revision is known from the last run in this process; that of a disabled module is
	// deleted.
	if m.Enabled && m.Release > 0 {
		s.Release = kube.ModuleRelease{Name: m.Name, Namespace: cmp.Or(m.Namespace, f.Namespace), Revision: m.Release}
	}
	if m.Health != nil {
		s.Objects.Summary = fmt.Sprintf("%d/%d", m.Health.Current, m.Health.Objects)
	}
	if m.LastRun != nil { // without a result until it has ended
		s.LastRun = kube.ModuleLastRun{Time: second(m.LastRun.Began), Result: f.cut(m.LastRun.Release, maxText)}
	}
	// A run that has changed nothing is no news, or each reload would write the objects of all modules. What the
	// object shows is then the run that made the revision.
	before := meta.FindStatusCondition(old.Conditions, Ready)
	succeeded := before != nil && before.Reason == view.Succeeded && old.Release == s.Release
	if m.LastRun != nil && m.LastRun.Unchanged && old.LastRun.Result != "" && succeeded {
		s.LastRun, m.LastRun = old.LastRun, &view.ModuleRun{Release: old.LastRun.Result}
	}
	s.Conditions = f.conditions(m)
	return s
}

// conditions are the verdict on a module. The errors in it are the public ones: others may quote the output of hooks
// and values, which must not be in an object (J14). A condition keeps the time of its last transition while its
// status stays.
func (f Facts) conditions(m view.Module) (all []metav1.Condition) {
	m.Failing = slices.Clone(m.Failing)
	for i := range m.Failing {
		m.Failing[i].Error, m.Failing[i].RetryAt = m.Failing[i].Public, time.Time{}
	}
	v := view.Judge(m)
	message := f.cut(cmp.Or(v.Message, "the module is "+m.State), maxText)
	for i, status := range ready(v) {
		c := metav1.Condition{
			Type: []string{Ready, Reconciling, Stalled}[i], Status: status, Reason: v.Reason, Message: message,
			ObservedGeneration: f.Object.Generation, LastTransitionTime: second(f.Now),
		}
		if c.Type != Ready && status == metav1.ConditionFalse {
			c.Message = "" // Ready has it
		}
		if old := meta.FindStatusCondition(f.Object.Status.Conditions, c.Type); old != nil && old.Status == status {
			c.LastTransitionTime = old.LastTransitionTime
		}
		all = append(all, c)
	}
	return all
}

// second is a time as the JSON of an object has it: in UTC, without fractions.
func second(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// ready is a verdict in the words of conditions (kstatus): Ready, Reconciling, Stalled. At most one of the latter is
// set: reconciling says that waiting may be enough, stalled that a person has to act. Both are unset when the module
// is as it should be, or suspended.
func ready(v view.Verdict) [3]metav1.ConditionStatus {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	switch v.Reason {
	case view.Succeeded, view.Off:
		return [3]metav1.ConditionStatus{yes, no, no}
	case view.BySuspend:
		return [3]metav1.ConditionStatus{no, no, no}
	case view.InProgress, view.ChangePending:
		return [3]metav1.ConditionStatus{metav1.ConditionUnknown, yes, no}
	case view.ProgressingWithRetry, view.HookHangs:
		return [3]metav1.ConditionStatus{no, yes, no}
	}
	return [3]metav1.ConditionStatus{no, no, yes}
}

// cut is what people may read of a text from outside of this package: masked, cleaned, in one line, and cut.
func (f Facts) cut(text string, limit int) string {
	text = f.Hide(text) // before it is cut: a part of a secret would not be recognised
	// Cleaning copies the text several times, so a long one is cut before. What is left is far
	// longer than what is shown, because cleaning shortens it.
	text = text[:min(len(text), maxLooked)]
	line := strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?")
	return values.Shorten(hooks.Printable(line), limit)
}
