package helm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/testkit/devclustertest"
)

// jobHooks has an account and a Job for each event, and an object between them.
const jobHooks = `
-- templates/before.yaml --
apiVersion: v1
kind: ServiceAccount
metadata:
  name: before
  annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-weight: "-5"}
-- templates/after.yaml --
apiVersion: v1
kind: ServiceAccount
metadata:
  name: after
  annotations: {helm.sh/hook: "post-install,post-upgrade", helm.sh/hook-weight: "-5", helm.sh/hook-delete-policy: "before-hook-creation,hook-succeeded"}
-- templates/job.yaml --
apiVersion: batch/v1
kind: Job
metadata:
  name: job
  annotations: {helm.sh/hook: "post-install,post-upgrade", helm.sh/hook-delete-policy: "{{ .Values.waits.policy | default "before-hook-creation" }}"}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      serviceAccountName: after
      containers: [{name: c, image: none, args: ["{{ .Values.waits.arg }}"]}]
-- templates/config.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
data: {arg: "{{ .Values.waits.arg }}"}
`

func (f *fixture) job(name string) *batchv1.Job {
	f.Helper()
	job, err := f.kube.BatchV1().Jobs(f.namespace).Get(f.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && job.DeletionTimestamp != nil {
		return nil
	}
	must(f, err)
	return job
}

func (f *fixture) account(name string) (uid string) {
	f.Helper()
	a, err := f.kube.CoreV1().ServiceAccounts(f.namespace).Get(f.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return ""
	}
	must(f, err)
	return string(a.UID)
}

// endPod waits for the Pod of a Job and ends it, as a kubelet would; other than that it stays pending: there are no
// nodes.
func (f *fixture) endPod(job string, phase corev1.PodPhase) {
	f.Helper()
	f.changePod(job, func(p *corev1.Pod) { p.Status.Phase = phase })
}

func (f *fixture) changePod(job string, change func(*corev1.Pod)) {
	f.Helper()
	pods := f.kube.CoreV1().Pods(f.namespace)
	f.eventually(func() bool {
		list, err := pods.List(f.Context(), metav1.ListOptions{LabelSelector: "job-name=" + job})
		if err != nil {
			return false
		}
		for _, p := range list.Items {
			if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodPending {
				change(&p)
				_, err = pods.UpdateStatus(f.Context(), &p, metav1.UpdateOptions{})
				return err == nil
			}
		}
		return false
	})
}

// interrupted applies a module, and gives the wait for a Job up as soon as it is there.
func (f *fixture) interrupted(m Module, job string) {
	f.Helper()
	until := make(chan struct{})
	m.HookWaits.Until = until
	done := f.applying(f.Context(), m)
	f.eventually(func() bool { j := f.job(job); return j != nil && j.Status.Active == 1 })
	close(until)
	f.waiting(<-done, job)
}

// waiting expects the error of a hook that has not finished.
func (f *fixture) waiting(err error, job string) {
	f.Helper()
	var problem *Error
	if !errors.As(err, &problem) || problem.Kind != Waiting || !IsWaiting(err) || !strings.Contains(err.Error(), "/"+job) {
		f.Fatalf("error = %v, want one that waits for %s", err, job)
	}
}

// finishes applies a module whose hook waits, and lets that end.
func (f *fixture) finishes(m Module, job string) {
	f.Helper()
	done := f.applying(f.Context(), m)
	f.endPod(job, corev1.PodSucceeded)
	if err := <-done; err != nil {
		f.Fatalf("error = %v\nlog:\n%s", err, f.log)
	}
}

// H14: a hook that has not finished at its timeout is left as it is. The next Apply waits for the same Job, in the
// same revision, and hooks that have succeeded do not run again.
func TestHookIsWaitedForAgain(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "waits", jobHooks).with("arg", "one")
	f.client.root.options.Timeout = 100 * time.Millisecond
	f.waiting(f.refuse(m, Waiting), "job")
	f.wantRevisions("waits", "1 failed")
	job, before, after := f.job("job"), f.account("before"), f.account("after")
	if job == nil || before == "" || after == "" {
		t.Fatal("what the hooks have made is gone")
	}
	f.waiting(f.refuse(m, Waiting), "job")
	f.wantRevisions("waits", "1 failed")
	f.restart() // the operator does
	f.finishes(m, "job")
	f.wantRevisions("waits", "1 deployed")
	if f.job("job").UID != job.UID || f.account("before") != before {
		t.Error("hooks have run again")
	}
	if f.account("after") != "" {
		t.Error("hook-succeeded is not obeyed")
	}
	f.apply(m, Skipped, 1)

	m = m.with("arg", "two")
	f.interrupted(m, "job")
	f.wantRevisions("waits", "1 deployed", "2 failed")
	second := f.job("job")
	before = f.account("before")
	if second.UID == job.UID {
		t.Fatal("the hook of the upgrade did not run")
	}
	f.setStatus("waits", 2, "pending-upgrade") // the operator was killed
	f.restart()
	f.finishes(m, "job")
	f.wantRevisions("waits", "1 superseded", "2 deployed")
	if f.job("job").UID != second.UID || f.account("before") != before {
		t.Error("hooks have run again")
	}
	f.apply(m, Skipped, 2)
}

// H6, H14: a chart that renders differently each time is waited for as well, and is not taken for installed.
func TestHookOfAnUnstableChartIsWaitedForAgain(t *testing.T) {
	t.Parallel()
	f := startOn(t, devclustertest.Borrow(t)) // kinds of other tests are an input of the chart
	m := moduleOf(t, "waits", jobHooks+"-- templates/random.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: random}\ndata: {text: {{ randAlphaNum 9 }}}\n").with("arg", "one")
	f.interrupted(m, "job")
	job := f.job("job")
	f.restart()
	f.finishes(m, "job")
	f.wantRevisions("waits", "1 deployed")
	if f.job("job").UID != job.UID {
		t.Error("the hook has run again")
	}
	f.apply(m, Skipped, 1)
}

// H14: the Job ends while the operator does not wait: with success the operation goes on, with a failure its hooks
// run again.
func TestHookEndsWhileNobodyWaits(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "waits", jobHooks).with("arg", "one")
	f.interrupted(m, "job")
	job := f.job("job")
	f.endPod("job", corev1.PodSucceeded)
	f.eventually(func() bool { return f.job("job").Status.Succeeded == 1 && len(f.job("job").Status.Conditions) > 1 })
	f.apply(m, Installed, 1)
	if f.job("job").UID != job.UID {
		t.Error("the hook has run again")
	}

	m = m.with("arg", "two")
	f.interrupted(m, "job")
	job = f.job("job")
	f.endPod("job", corev1.PodFailed)
	f.eventually(func() bool { return f.job("job").Status.Failed == 1 && len(f.job("job").Status.Conditions) > 1 })
	f.finishes(m, "job")
	f.wantRevisions("waits", "1 superseded", "2 failed", "3 deployed")
	if f.job("job").UID == job.UID {
		t.Error("the failed hook did not run again")
	}
}

// H14: another manifest is another revision, whose hooks run; what hook-failed says of the one before is done then.
func TestHookOfAnotherManifestIsNotWaitedFor(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "waits", jobHooks).with("arg", "one").with("policy", "hook-failed")
	f.interrupted(m, "job")
	job := f.job("job")
	if job == nil {
		t.Fatal("a Job that has not finished is deleted")
	}
	m = m.with("arg", "two")
	write(t, m, "templates/more.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: more}}")
	done := f.applying(t.Context(), m)
	f.eventually(func() bool { j := f.job("job"); return j != nil && j.UID != job.UID })
	f.endPod("job", corev1.PodSucceeded)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	f.wantRevisions("waits", "1 deployed")
	if f.configMap("config")["arg"] != "two" {
		t.Error("the new manifest is not applied")
	}
	more, err := f.kube.CoreV1().ConfigMaps(f.namespace).Get(t.Context(), "more", metav1.GetOptions{})
	if err != nil || more.Labels[MarkLabel] != "waits" {
		t.Errorf("an object of the new manifest has the labels %v: %v", more.Labels, err)
	}
}

// H14: what is put back is no other version of the release: its upgrade hooks do not run.
func TestHealRunsNoHooks(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "waits", jobHooks).with("arg", "one")
	f.finishes(m, "job")
	job, before := f.job("job"), f.account("before")
	f.deleteConfigMap("config")
	f.caughtUp()
	if plan, err := f.client.Plan(t.Context(), m); err != nil || len(plan.Hooks) > 0 || plan.Action != Upgraded {
		t.Errorf("plan: %+v, %v; want an upgrade without hooks", plan, err)
	}
	f.apply(m, Upgraded, 2)
	if f.configMap("config") == nil {
		t.Error("the object is absent")
	}
	f.patch("configmaps", "config", `{"data":{"arg":"drift"}}`)
	m.Drifted = []Object{{GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Namespace: f.namespace, Name: "config"}}
	f.apply(m, Upgraded, 3)
	if f.configMap("config")["arg"] != "one" {
		t.Error("the drift is still there")
	}
	m.Drifted = nil
	if f.job("job").UID != job.UID || f.account("before") != before {
		t.Error("upgrade hooks have run")
	}
	f.finishes(m.with("arg", "two"), "job")
	if f.job("job").UID == job.UID {
		t.Error("upgrade hooks did not run for another manifest")
	}
}

// until is a module whose Helm hooks are not waited for once the channel is closed.
func (m Module) until(end <-chan struct{}) Module {
	m.HookWaits.Until = end
	return m
}

// H14: an uninstall goes on waiting for its hook, too.
func TestUninstallIsWaitedForAgain(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "gone", strings.ReplaceAll(strings.ReplaceAll(jobHooks, "post-install,post-upgrade", "pre-delete"), ".waits.", ".gone.")).with("arg", "one")
	f.apply(m, Installed, 1)
	until := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		_, err := f.client.Uninstall(context.WithoutCancel(t.Context()), m.until(until))
		done <- err
	}()
	f.eventually(func() bool { j := f.job("job"); return j != nil && j.Status.Active == 1 })
	close(until)
	f.waiting(<-done, "job")
	job, after := f.job("job"), f.account("after")
	f.restart()
	go func() {
		_, err := f.client.Uninstall(context.WithoutCancel(t.Context()), m)
		done <- err
	}()
	f.endPod("job", corev1.PodSucceeded)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if f.job("job").UID != job.UID || after == "" {
		t.Error("the hooks have run again")
	}
	f.wantRevisions("gone")
}

// H14: neither is a post-delete hook left behind: its uninstall is over when it has ended, also when that was while
// no one was waiting. The hooks before it do not run again, what they needed is gone.
func TestPostDeleteHookIsWaitedForAgain(t *testing.T) {
	for phase, want := range map[corev1.PodPhase]string{corev1.PodSucceeded: "", corev1.PodFailed: "job job failed"} {
		t.Run(string(phase), func(t *testing.T) {
			f := start(t)
			events := strings.NewReplacer("pre-install,pre-upgrade", "pre-delete", "post-install,post-upgrade", "post-delete", ".waits.", ".gone.")
			m := moduleOf(t, "gone", events.Replace(jobHooks)).with("arg", "one")
			f.apply(m, Installed, 1)
			until := make(chan struct{})
			done := make(chan error, 1)
			go func() {
				_, err := f.client.Uninstall(context.WithoutCancel(t.Context()), m.until(until))
				done <- err
			}()
			f.eventually(func() bool { j := f.job("job"); return j != nil && j.Status.Active == 1 })
			close(until)
			f.waiting(<-done, "job")
			f.wantRevisions("gone", "1 uninstalling")
			job, before, after := f.job("job"), f.account("before"), f.account("after")
			if f.configMap("config") != nil || before == "" || after == "" {
				t.Error("post-delete hooks must run when the objects are gone")
			}
			f.endPod("job", phase)
			f.restart()
			_, err := f.client.Uninstall(t.Context(), m)
			if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
				t.Errorf("error = %v, want %q", err, want)
			}
			f.wantRevisions("gone")
			if f.job("job").UID != job.UID || f.account("before") != before {
				t.Error("hooks have run again")
			}
			if f.account("after") != "" {
				t.Error("the delete policy of a hook was not kept to")
			}
		})
	}
}

// The state of a waiting hook is reported when it is stuck, when it changes, and when it is over.
func TestHookWaitIsReported(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "waits", jobHooks).with("arg", "one")
	reports := make(chan *HookWait, 100)
	m.HookWaits.Report = func(w *HookWait) { reports <- w }
	done := f.applying(t.Context(), m)
	f.changePod("job", func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}
	})
	w := <-reports
	if w == nil || w.Object != "Job "+f.namespace+"/job" || w.State != "Unschedulable" || w.Message != "0/3 nodes are available" || !strings.HasPrefix(w.Pod, "job-") || w.Until.Sub(w.Since) < time.Minute {
		t.Fatalf("report = %+v", w)
	}
	f.changePod("job", func(p *corev1.Pod) {
		p.Status.Conditions = nil
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
	})
	if w := <-reports; w == nil || w.State != "ImagePullBackOff" {
		t.Fatalf("report = %+v", w)
	}
	f.endPod("job", corev1.PodSucceeded)
	for w := range reports {
		if w == nil {
			break
		}
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if len(reports) > 0 {
		t.Error("a report after the end of the wait")
	}
}
