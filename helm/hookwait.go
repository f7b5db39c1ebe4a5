package helm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/resource"

	"addon-operator/helm/health"
)

const (
	// patience is how long a Helm hook may run before it counts as waiting. One whose Pod cannot
	// start counts at once.
	patience = 10 * time.Second
	// firstLook is how long a hook runs before its Pods are looked at; most need less than that.
	firstLook = time.Second
	// podLook is the pause between two looks at the Pods of a hook.
	podLook = 2 * time.Second
	// hookPods is how many Pods of a Job are looked at.
	hookPods = 20
	// maxPodMessage bounds what is shown of the message of a Pod.
	maxPodMessage = 300
)

// HookWaits is how an operation waits for the Jobs and Pods of Helm hooks. A Job may need hours, or
// never finish, and Helm blocks until then: so the wait is visible to people, and can be given up
// without ending the hook.
type HookWaits struct {
	// Until is closed when the operation must not wait any longer. What it waits for continues in
	// the cluster, and the next operation on the release waits for the same. nil: the wait ends
	// with the operation or its timeout.
	Until <-chan struct{}
	// Report is called when a hook counts as waiting (patience), whenever what is known of it
	// changes, and with nil when the wait is over; never by two goroutines at the same time.
	// Optional.
	Report func(*HookWait)
}

// HookWait is the state of a Helm hook that waits, for people.
type HookWait struct {
	Object  string // the Job or Pod: Kind namespace/name
	Pod     string // name of the Pod that decides; empty while there is none
	State   string // one word where Kubernetes has one: Unschedulable, ImagePullBackOff, Running
	Message string // of the Pod, about its state; may be empty
	// Deleted: the object is that of an earlier run, and is being deleted before the hook is
	// created again.
	Deleted bool
	// Since is when the Job or Pod was created, or its deletion began, Until when this attempt
	// gives up.
	Since, Until time.Time
}

// state is what is known of the hook, as the end of a sentence.
func (w HookWait) state() string {
	text := w.State
	if w.Pod != "" {
		text = "Pod " + w.Pod + " is " + w.State
	}
	if w.Message != "" {
		text += " (" + w.Message + ")"
	}
	return text
}

// waitError ends an operation whose hook has not finished. The Job or Pod is left as it is, and the
// next operation waits for it again (resume.go).
type waitError struct {
	wait    HookWait
	timeout time.Duration // that is over; 0 when the wait was given up
}

// Error implements error.
func (e *waitError) Error() string {
	what, end := "Helm hook "+e.wait.Object, "; it is left unchanged, and the next attempt continues to wait for it"
	text := fmt.Sprintf("%s did not finish within %s", what, e.timeout)
	if e.wait.Deleted {
		what, end = "the deletion of "+what+" of an earlier run", "; the next attempt continues to wait for it"
		text = fmt.Sprintf("%s has not finished after %s", what, e.timeout)
	}
	if e.timeout == 0 {
		text = fmt.Sprintf("the wait for %s was interrupted", what)
	}
	if e.wait.State != "" {
		text += ": " + e.wait.state()
	}
	return text + end
}

// IsWaiting reports that a Helm hook has not finished yet: nothing has failed, and the next Apply
// or Uninstall waits for the same hook.
func IsWaiting(err error) bool {
	var problem *Error
	return errors.As(err, &problem) && problem.Kind == Waiting
}

// bind returns a context that also ends when the wait is given up.
func (w HookWaits) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	if w.Until != nil {
		go func() {
			select {
			case <-w.Until:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, cancel
}

// observer reads the Pods of one hook during the wait, and reports their state. Two goroutines use
// it: the watch of the Job calls saw, and its own calls look. The mutex is for both. reported
// belongs to its own goroutine, and then to the function that run returns.
type observer struct {
	op      *operation
	secrets []string // not shown
	info    *resource.Info
	began   time.Time

	mu       sync.Mutex
	object   *unstructured.Unstructured // as its watch has seen it last
	seen     chan struct{}              // closed when object is set
	now      HookWait
	reported *HookWait
}

func (r *helmHooks) observe(info *resource.Info, timeout time.Duration) *observer {
	now := time.Now()
	return &observer{op: r.op, secrets: r.builder.secrets, info: info, began: now, seen: make(chan struct{}), now: HookWait{Object: objectOfInfo(info).String(), Since: now, Until: now.Add(timeout)}}
}

// saw takes over what the watch shows of the Job or Pod. The times of the cluster replace those of
// this process: the hook may have been created by an earlier attempt.
func (o *observer) saw(u *unstructured.Unstructured) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.object == nil {
		close(o.seen)
	}
	o.object = u
	created := u.GetCreationTimestamp()
	if deleted := u.GetDeletionTimestamp(); o.now.Deleted && deleted != nil {
		created = *deleted
	}
	if !created.IsZero() {
		o.now.Since = created.Time
	}
}

// run looks at the hook, first after at and then each podLook, until ctx is done. ended waits for
// that, and reports the end of the wait.
func (o *observer) run(ctx context.Context, at time.Duration) (ended func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		if at == 0 { // the hook exists; what it waits for is known when the watch has shown it
			select {
			case <-ctx.Done():
				return
			case <-o.seen:
			}
		}
		timer := time.NewTimer(at)
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
			o.look()
			timer.Reset(podLook)
		}
	}()
	return func() {
		<-done
		if o.reported != nil && o.op.waits.Report != nil {
			o.op.waits.Report(nil)
		}
	}
}

// look refreshes what is known, and reports changes. A hook that makes progress is not reported
// before patience is over: most end earlier.
func (o *observer) look() {
	stuck := o.refresh()
	now := o.last()
	if o.op.waits.Report == nil || !stuck && time.Since(now.Since) < patience && time.Since(o.began) < patience {
		return
	}
	if o.reported == nil || *o.reported != now {
		o.reported = &now
		o.op.waits.Report(&now)
	}
}

// refresh finds out what the hook waits for. The lock is not held during its request.
func (o *observer) refresh() (stuck bool) {
	o.mu.Lock()
	object := o.object
	o.mu.Unlock()
	pod, state, message, stuck := o.state(object)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.now.Pod, o.now.State, o.now.Message = pod, state, shortMessage(message, o.secrets)
	return stuck
}

// last is what was seen last.
func (o *observer) last() HookWait {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now
}

// state describes what a hook waits for. stuck: its Pod does not start without help.
func (o *observer) state(object *unstructured.Unstructured) (pod, state, message string, stuck bool) {
	if o.last().Deleted {
		return "", "Terminating", finalizersOf(object), false
	}
	if o.info.Mapping.GroupVersionKind.Kind == "Pod" {
		p := &corev1.Pod{}
		if object == nil || runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, p) != nil {
			return "", "", "", false
		}
		state, message, stuck = health.PodState(p)
		return "", state, message, stuck
	}
	pods, err := o.op.pods(o.info.Namespace, metav1.ListOptions{LabelSelector: "job-name=" + o.info.Name, Limit: hookPods})
	if apierrors.IsForbidden(err) {
		return "", "the operator may not list its Pods", "", false
	}
	if err != nil {
		o.op.debug("the Pods of a Helm hook cannot be listed now: %v", err)
		last := o.last()
		return last.Pod, last.State, last.Message, false
	}
	return jobState(object, pods.Items)
}

// finalizersOf words what keeps an object that was deleted; empty if nothing is known.
func finalizersOf(object *unstructured.Unstructured) string {
	if object == nil || len(object.GetFinalizers()) == 0 {
		return ""
	}
	return "it is removed when its finalizers are removed: " + strings.Join(object.GetFinalizers(), ", ")
}

// jobState is the state of a Job's newest Pod that has not ended, or of its newest one if all have:
// a Job creates Pods until one succeeds or its limit is reached.
func jobState(job *unstructured.Unstructured, pods []corev1.Pod) (pod, state, message string, stuck bool) {
	if job != nil {
		if suspended, _, _ := unstructured.NestedBool(job.Object, "spec", "suspend"); suspended {
			return "", "Suspended", "", true
		}
	}
	if len(pods) == 0 {
		return "", "no Pod yet", "", false
	}
	newest := slices.MaxFunc(pods, func(a, b corev1.Pod) int {
		if ended(a) != ended(b) {
			return before(ended(a), ended(b))
		}
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	state, message, stuck = health.PodState(&newest)
	return newest.Name, state, message, stuck
}

func ended(p corev1.Pod) bool {
	return p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded || p.DeletionTimestamp != nil
}

// shortMessage is one line of a message without secrets of the chart.
func shortMessage(text string, secrets []string) string {
	text = strings.Join(strings.Fields(mask(text, secrets)), " ")
	if len(text) > maxPodMessage {
		text = strings.ToValidUTF8(text[:maxPodMessage], "") + "…"
	}
	return text
}
