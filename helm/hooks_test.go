package helm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
{apiVersion: v1, kind: ConfigMap, metadata: {name: config}, data: {arg: "{{ .Values.waits.arg }}"}}
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

// endPods ends the Pods of a Job that are pending, as a kubelet would; other than that they stay so: there are no
// nodes.
func (f *fixture) endPods(job string, phase corev1.PodPhase) {
	f.Helper()
	pods := f.kube.CoreV1().Pods(f.namespace)
	list, err := pods.List(f.Context(), metav1.ListOptions{LabelSelector: "job-name=" + job})
	must(f, err)
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodPending {
			p.Status.Phase = phase
			_, _ = pods.UpdateStatus(f.Context(), &p, metav1.UpdateOptions{}) // again, where another client was faster
		}
	}
}

// ended plays the kubelet for a Job until something is done, and returns how that ended.
func (f *fixture) ended(done <-chan error, job string, phase corev1.PodPhase) (err error) {
	f.Helper()
	f.eventually(func() bool {
		select {
		case err = <-done:
			return true
		default:
			f.endPods(job, phase)
			return false
		}
	})
	return err
}

// applying runs Apply in parallel with the test, which plays the kubelet.
func (f *fixture) applying(ctx context.Context, m Module) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := f.client.Apply(ctx, m)
		done <- err
	}()
	return done
}

// H14: an object waits for its hook; a failed hook fails the release.
func TestHookFails(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "waits", strings.ReplaceAll(jobHooks, "post-install,post-upgrade", "pre-install,pre-upgrade")).with("arg", "one")
	var problem *Error
	err := f.ended(f.applying(t.Context(), m), "job", corev1.PodFailed)
	if !errors.As(err, &problem) || problem.Kind != Failed || !strings.Contains(err.Error(), "job job failed") {
		t.Fatalf("error = %v", err)
	}
	f.wantRevisions("waits", "1 failed")
	f.gone("objects were created although the hook before them failed", "config")
}

// interrupted applies a module, and cancels that as soon as a Job of its hooks runs.
func (f *fixture) interrupted(m Module, job string) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	defer cancel()
	done := f.applying(ctx, m)
	f.eventually(func() bool { j := f.job(job); return j != nil && j.Status.Active == 1 })
	cancel()
	var problem *Error
	if err := <-done; !errors.As(err, &problem) || problem.Kind != Cancelled {
		f.Fatalf("error = %v", err)
	}
	f.restart()
}

// finishes applies a module whose hook waits, and lets that end.
func (f *fixture) finishes(m Module, job string) {
	f.Helper()
	must(f, f.ended(f.applying(f.Context(), m), job, corev1.PodSucceeded))
}

// H14: a hook that was interrupted begins again, whatever its delete policy; so does one that has not ended in time.
func TestHookBeginsAgain(t *testing.T) {
	for _, policy := range []string{"before-hook-creation", "hook-failed", "hook-succeeded"} {
		t.Run(policy, func(t *testing.T) {
			f := start(t)
			m := moduleOf(t, "waits", jobHooks).with("arg", "one").with("policy", policy)
			f.interrupted(m, "job")
			job := f.job("job")
			f.setStatus("waits", 1, "pending-install") // the operator was killed
			f.restart()
			f.finishes(m, "job")
			f.wantRevisions("waits", "1 deployed")
			if now := f.job("job"); now != nil && now.UID == job.UID || job == nil {
				t.Error("the hook did not begin again")
			}
			if f.account("after") != "" {
				t.Error("hook-succeeded is not obeyed")
			}
			f.apply(m, Skipped, 1)

			f.client.root.options.Timeout = 100 * time.Millisecond
			wantError(t, f.refuse(m.with("arg", "two"), Failed), "Helm hook Job "+f.namespace+"/job did not finish within 100ms")
			f.restart()
			f.finishes(m.with("arg", "two"), "job")
			f.wantRevisions("waits", "1 superseded", "2 failed", "3 deployed")
		})
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
	f.kept("the object is absent", "config")
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

// H14: an uninstall that was interrupted runs its hooks again, but for those whose objects it has deleted by then.
func TestUninstallBeginsAgain(t *testing.T) {
	f := start(t)
	events := strings.NewReplacer("pre-install,pre-upgrade", "pre-delete", "post-install,post-upgrade", "post-delete", ".waits.", ".gone.")
	m := moduleOf(t, "gone", events.Replace(jobHooks)).with("arg", "one")
	f.apply(m, Installed, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	uninstall := func(ctx context.Context) <-chan error {
		done := make(chan error, 1)
		go func() { done <- second(f.client.Uninstall(ctx, m)) }()
		return done
	}
	done := uninstall(ctx)
	f.eventually(func() bool { j := f.job("job"); return j != nil && j.Status.Active == 1 })
	f.wantRevisions("gone", "1 uninstalling")
	cancel()
	if err := <-done; err == nil {
		t.Error("an uninstall that was cancelled has succeeded")
	}
	f.wantRevisions("gone", "1 uninstalling")
	job, before := f.job("job"), f.account("before")
	if f.configMap("config") != nil || before == "" {
		t.Error("post-delete hooks must run when the objects are gone")
	}
	f.restart()
	done = uninstall(t.Context())
	f.eventually(func() bool { j := f.job("job"); return j != nil && j.UID != job.UID })
	must(t, f.ended(done, "job", corev1.PodSucceeded))
	f.wantRevisions("gone")
	if f.account("before") != before {
		t.Error("the pre-delete hook has run again")
	}
}

// requestLog collects the requests of a client.
type requestLog struct {
	mu   sync.Mutex
	list []string
}

func (l *requestLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	l.list = nil
	return list
}

// writes are those of the collected requests that would change something in the cluster.
func (l *requestLog) writes() []string {
	return slices.DeleteFunc(l.take(), func(r string) bool { return strings.HasPrefix(r, "GET ") || strings.Contains(r, "dryRun=All") })
}

// record restarts the client and collects its requests, but not those of its watches.
func (f *fixture) record() *requestLog {
	f.Helper()
	l := &requestLog{}
	f.config.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			l.mu.Lock()
			l.list = append(l.list, r.Method+" "+r.URL.Path+"?"+r.URL.RawQuery)
			l.mu.Unlock()
			return next.RoundTrip(r)
		})
	}
	f.restart()
	return l
}

// H8: the connection, and with it the operator, dies after each single write
// of an install and of an upgrade; a new client always gets through.
func TestApplyCutAfterEachWrite(t *testing.T) {
	f := start(t)
	m := module(t, "simple")
	var left atomic.Int64
	f.config.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if left.Load() < 0 || r.Method != http.MethodGet && left.Add(-1) < 0 {
				return nil, errors.New("connection lost")
			}
			return next.RoundTrip(r)
		})
	}
	const unlimited = 1 << 40
	cut := func(m Module, writes int64) (through bool) {
		f.restart()
		left.Store(writes)
		_, err := f.client.Apply(t.Context(), m)
		left.Store(unlimited)
		f.restart()
		return err == nil
	}
	check := func(m Module, text string) {
		t.Helper()
		must(t, second(f.client.Apply(t.Context(), m)))
		f.apply(m, Skipped, 0)
		if f.configMap("simple-a")["text"] != text || f.configMap("simple-b") == nil {
			t.Fatal("the objects are not as the module wants them")
		}
	}
	for writes := int64(0); ; writes++ {
		through := cut(m.with("text", "new"), writes)
		check(m.with("text", "new"), "new")
		f.uninstall("simple", true)
		if through {
			t.Logf("install: cut after each of %d writes", writes)
			break
		}
	}
	check(m.with("text", "start"), "start")
	for writes := int64(0); ; writes++ {
		text := fmt.Sprint("text ", writes)
		through := cut(m.with("text", text), writes)
		check(m.with("text", text), text)
		if through {
			t.Logf("upgrade: cut after each of %d writes", writes)
			break
		}
	}
}

// H7, H14: a Helm hook of a chart replaces what hooks of its release have left, and nothing else that has its name.
func TestHooksReplaceNothingOfOthers(t *testing.T) {
	f := start(t)
	chart := func(name string) Module {
		return moduleOf(t, name, `
-- templates/all.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: `+name+`}
data: {word: {{ .Values.`+name+`.word | default "one" | quote }}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, annotations: {helm.sh/hook: "pre-install,pre-upgrade,pre-delete", helm.sh/hook-delete-policy: {{ .Values.`+name+`.policy | default "before-hook-creation" | quote }}}}
data: {from: `+name+`}
`)
	}
	uid := func() string {
		t.Helper()
		live, err := f.kube.CoreV1().ConfigMaps(f.namespace).Get(t.Context(), "settings", metav1.GetOptions{})
		must(t, err)
		return string(live.UID)
	}
	m := chart("hooked")
	refused := func(what, want string) {
		t.Helper()
		before := uid()
		if err := f.refuse(m, Foreign); !strings.Contains(err.Error(), "ConfigMap "+f.namespace+"/settings") || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "rename the hook") {
			t.Errorf("%s: %v", what, err)
		}
		if uid() != before {
			t.Errorf("%s: it was replaced", what)
		}
	}
	f.create("settings", nil, nil)
	refused("an object of a person", "no Helm hook has made it")
	f.deleteConfigMap("settings")
	f.create("settings", nil, map[string]string{ownerName: "other", ownerNamespace: f.namespace, "helm.sh/hook": "pre-install"})
	refused("one of another release", "it belongs to release other in namespace "+f.namespace)
	f.deleteConfigMap("settings")

	// What it made itself, or its Helm before, is replaced; so is an object of the release that became a hook.
	f.apply(m, Installed, 0)
	for _, annotations := range []map[string]string{
		nil, {"helm.sh/hook": "pre-install"}, {ownerName: "hooked", ownerNamespace: f.namespace},
	} {
		if annotations != nil {
			f.deleteConfigMap("settings")
			f.create("settings", nil, annotations)
		}
		before := uid()
		m = m.with("word", jsonOf(annotations))
		f.apply(m, Upgraded, 0)
		if uid() == before || f.configMap("settings")["from"] != "hooked" {
			t.Errorf("what has %v was not replaced", annotations)
		}
	}

	other := chart("neighbour")
	m, other = other, m
	refused("what a hook of another release has left", "it is of a Helm hook of release hooked")
	before := uid()
	if _, err := f.client.Uninstall(t.Context(), m); err == nil || !strings.Contains(err.Error(), "it is of a Helm hook of release hooked") || uid() != before {
		t.Errorf("an uninstall: %v", err)
	}
	must(t, second(f.client.Uninstall(t.Context(), other)))
	if f.configMap("settings") != nil {
		f.deleteConfigMap("settings")
	}
	f.apply(m, Installed, 0)
}
