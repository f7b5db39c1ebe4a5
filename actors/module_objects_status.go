package actors

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
)

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
