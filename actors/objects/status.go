package objects

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// The conditions of an object of kind Module. kstatus computes the status of the object from them:
// a True Stalled means failed, a True Reconciling in progress, else Ready decides.
const (
	Ready       = "Ready"
	Reconciling = "Reconciling"
	Stalled     = "Stalled"
)

// The reasons of the conditions. The first six are those of Flux.
const (
	Succeeded            = "ReconciliationSucceeded"
	Progressing          = "Progressing"
	ProgressingWithRetry = "ProgressingWithRetry"
	HealthCheckFailed    = "HealthCheckFailed"
	DependencyNotReady   = "DependencyNotReady"
	Suspended            = "Suspended"
	RunFailed            = "RunFailed"
	HookFailed           = "HookFailed"
	Disabled             = "Disabled"
	PurgeHeld            = "PurgeHeld"
	UpgradeHeld          = "UpgradeHeld"
	NoModule             = "NoModule"
)

// keepsFailing is the number of attempts, after about half a minute, from which on a failure counts
// as permanent (Stalled). Events begin there, too.
const keepsFailing = 4

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
	// Requested: a run that a person has requested has not ended.
	Requested bool
	// Held: its directory is gone, and the purge of its release waits for a person.
	Held bool
	// Gone: there is no module of this name, and the object is not the operator's, who would delete it.
	Gone bool
	// Hide masks secrets; nil for no secrets.
	Hide func(string) string
	// Now is the time of transitions, and decides whether an object has been in progress for too
	// long.
	Now time.Time
}

// Status is what an object says of a module. With equal input and conditions that do not change it
// is the same at any time, so that the caller writes only what differs (J15). Handled requests are
// copied from the object: the caller sets them before.
func Status(m view.Module, f Facts) kube.ModuleStatus {
	b := builder{m, f}
	old := f.Object.Status
	s := kube.ModuleStatus{
		ObservedGeneration: f.Object.Generation, Phase: b.name(m.State), Enabled: m.Enabled, EnabledReason: b.text(cmp.Or(m.Off, m.On)),
		Order: m.Order, Maintenance: m.Maintenance, LastRun: b.lastRun(), Hooks: b.hooks(), Objects: b.health(), Drift: b.drift(), Problems: b.problems(),
		LastHandledRequestedAt: old.LastHandledRequestedAt, LastHandledRetryRequestedAt: old.LastHandledRetryRequestedAt,
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
	v := b.verdict()
	b.set(&s, Ready, v.ready, v)
	b.set(&s, Reconciling, yes(v.reconciling), v)
	b.set(&s, Stalled, yes(v.stalled), v)
	return s
}

// own are the conditions that the operator writes; conditions of other writers are not applied, so
// they stay as they are. It returns a copy, because builder.set writes into it, and the object may
// be in use elsewhere.
func own(all []metav1.Condition) (ours []metav1.Condition) {
	for _, c := range all {
		if slices.Contains([]string{Ready, Reconciling, Stalled}, c.Type) {
			ours = append(ours, c)
		}
	}
	return ours
}

// builder makes the parts of a status. Texts from outside of this package go through text or name,
// which mask, clean and cut them.
type builder struct {
	view.Module
	f Facts
}

// set sets a condition; the time of its last transition stays while its status does.
func (b builder) set(s *kube.ModuleStatus, condition string, status metav1.ConditionStatus, v verdict) {
	c := metav1.Condition{
		Type: condition, Status: status, Reason: v.reason, Message: b.text(v.message), ObservedGeneration: s.ObservedGeneration,
		LastTransitionTime: second(b.f.Now),
	}
	if condition != Ready && status == metav1.ConditionFalse {
		c.Message = "" // Ready has it
	}
	meta.SetStatusCondition(&s.Conditions, c)
}

// yes is a condition that is never Unknown.
func yes(is bool) metav1.ConditionStatus {
	if is {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// second is a time as the JSON of an object has it: in UTC, without fractions.
func second(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// verdict is the state of a module, in the words of conditions (kstatus). At most one of
// reconciling and stalled is set: reconciling says that waiting may be enough, stalled that a
// person has to act. Both are unset when the module is as it should be, or suspended.
type verdict struct {
	ready                metav1.ConditionStatus
	reconciling, stalled bool
	reason, message      string
}

// verdict finds the worst state first: each case assumes that those above do not hold. So a task
// that fails wins over a run that was requested, and a wait over the health of objects, which is
// that of before.
func (b builder) verdict() verdict {
	if failing := b.worst(); failing != nil && b.Maintenance != values.Suspended {
		return failure(*failing)
	}
	progressing := verdict{ready: metav1.ConditionUnknown, reconciling: true, reason: Progressing}
	problem := b.Health.Problem(b.f.Now)
	switch {
	case b.Maintenance == values.Suspended:
		return verdict{ready: metav1.ConditionFalse, reason: Suspended, message: "spec.suspend is true: the module does not run, and its release is left alone"}
	case b.f.Gone:
		return verdict{ready: metav1.ConditionFalse, stalled: true, reason: NoModule, message: "there is no module of this name; another client has created this object, so it is not deleted"}
	case b.Waiting != nil && b.Waiting.Module != "":
		return verdict{ready: metav1.ConditionFalse, reconciling: true, reason: DependencyNotReady, message: b.Waiting.String()}
	case b.Waiting != nil:
		progressing.message = b.Waiting.String()
	case b.State == string(view.Disabled):
		return b.disabled()
	case b.f.Held:
		return b.purgeHeld()
	case b.State == view.Held:
		return verdict{ready: metav1.ConditionFalse, stalled: true, reason: UpgradeHeld, message: b.ModuleStatus.Held}
	case b.State == view.Unhealthy:
		return verdict{ready: metav1.ConditionFalse, stalled: true, reason: HealthCheckFailed, message: problem}
	case b.State == view.Progressing && len(b.Health.Unhealthy) > 0:
		progressing.message = fmt.Sprintf("%d of %s are current: %s", b.Health.Current, view.Count(b.Health.Objects, "object"), b.Health.Unhealthy[0])
	case b.f.Requested:
		progressing.message = "a requested run has not ended"
	case b.State == string(view.Ready):
		return verdict{ready: metav1.ConditionTrue, reason: Succeeded, message: b.success()}
	default:
		progressing.message = "the module is " + b.State
	}
	return progressing
}

// disabled is the verdict about a module that is off: Ready, as it should be, unless that is not known
// yet, or its purge is held.
func (b builder) disabled() verdict {
	switch {
	case b.Off == "": // before the first discovery
		return verdict{ready: metav1.ConditionUnknown, reconciling: true, reason: Progressing, message: "it is not yet known whether the module is enabled"}
	case b.f.Held:
		return b.purgeHeld()
	}
	return verdict{ready: metav1.ConditionTrue, reason: Disabled, message: "disabled: " + b.Off}
}

func (b builder) purgeHeld() verdict {
	return verdict{ready: metav1.ConditionFalse, stalled: true, reason: PurgeHeld, message: b.Off + ", and the purge of its release is held back"}
}

// failure is the verdict about a task that fails. The message is the public one: errors may quote
// the output of hooks and values, which must not be in an object (J14).
func failure(f view.FailingTask) verdict {
	v := verdict{ready: metav1.ConditionFalse, stalled: f.Attempts >= keepsFailing, reason: RunFailed}
	v.reconciling = !v.stalled
	switch {
	case v.reconciling:
		v.reason = ProgressingWithRetry
	case f.Hook != "":
		v.reason = HookFailed
	}
	v.message = fmt.Sprintf("%s has failed %s: %s", f.Task, view.Count(f.Attempts, "time"), f.Public)
	return v
}

// worst is the task with most failed attempts; tasks of the module come before those of hooks. Nil:
// none fails. Equal ones are ordered by name, so that the condition does not change back and forth.
func (b builder) worst() *view.FailingTask {
	if len(b.Failing) == 0 {
		return nil
	}
	worst := slices.MinFunc(b.Failing, func(x, y view.FailingTask) int {
		return cmp.Or(rank(x)-rank(y), cmp.Compare(y.Attempts, x.Attempts), cmp.Compare(x.Task, y.Task))
	})
	return &worst
}

func rank(f view.FailingTask) int {
	if f.Hook != "" {
		return 1
	}
	return 0
}

// success is the message of a module that is ready: what a person should look at all the same, or
// else what the last run did.
func (b builder) success() string {
	var parts []string
	if b.Maintenance != "" {
		parts = append(parts, "its release is left alone: maintenance "+b.Maintenance)
	}
	if n := len(b.Hanging); n > 0 {
		parts = append(parts, "hook "+b.Hanging[0].Hook+" hangs")
	}
	parts = append(parts, b.problems()...)
	if n := len(b.Drift); n > 0 {
		parts = append(parts, view.Count(n, "object")+" changed by others")
	}
	if len(parts) > 0 {
		return strings.Join(parts, "; ")
	}
	if b.LastRun != nil && b.LastRun.Release != "" {
		return b.LastRun.Release
	}
	return "the last run has succeeded"
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
	if len(b.LastRun.Causes) > 0 {
		run.Cause = b.text(b.LastRun.Causes[0].String())
	}
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
