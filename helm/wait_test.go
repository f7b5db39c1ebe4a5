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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const podHook = `
-- templates/pod.yaml --
apiVersion: v1
kind: Pod
metadata:
  name: hook
  annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-delete-policy: "before-hook-creation"}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: none}]
-- templates/config.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: config}
`

// applying runs Apply in parallel with the test, which plays the kubelet.
func (f *fixture) applying(ctx context.Context, m Module) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := f.client.Apply(ctx, m)
		done <- err
	}()
	return done
}

// finishHook waits for a pending hook pod and sets its phase.
func (f *fixture) finishHook(phase corev1.PodPhase) {
	f.Helper()
	pods := f.kube.CoreV1().Pods(f.namespace)
	f.eventually(func() bool {
		pod, err := pods.Get(f.Context(), "hook", metav1.GetOptions{})
		if err != nil || pod.Status.Phase != corev1.PodPending {
			return false
		}
		pod.Status.Phase = phase
		_, err = pods.UpdateStatus(f.Context(), pod, metav1.UpdateOptions{})
		return err == nil
	})
}

// H14: an object waits for its hook; a failed hook fails the release, a
// cancelled wait ends at once.
func TestHookPod(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "m", podHook)
	done := f.applying(t.Context(), m)
	f.finishHook(corev1.PodFailed)
	var problem *Error
	if err := <-done; !errors.As(err, &problem) || problem.Kind != Failed || !strings.Contains(err.Error(), "pod hook failed") {
		t.Fatalf("error = %v", err)
	}
	f.wantRevisions("m", "1 failed")
	if f.configMap("config") != nil {
		t.Error("objects were created although the hook before them failed")
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done = f.applying(ctx, m)
	f.eventually(func() bool {
		pod, err := f.kube.CoreV1().Pods(f.namespace).Get(t.Context(), "hook", metav1.GetOptions{})
		return err == nil && pod.Status.Phase == corev1.PodPending
	})
	cancel()
	if err := <-done; !errors.As(err, &problem) || problem.Kind != Cancelled {
		t.Fatalf("error = %v", err)
	}

	done = f.applying(t.Context(), m)
	// The pod of the cancelled run may still be seen here: Helm deletes it first.
	f.eventually(func() bool {
		select {
		case err := <-done:
			if err != nil {
				t.Fatalf("error = %v", err)
			}
			return true
		default:
			pods := f.kube.CoreV1().Pods(f.namespace)
			if pod, err := pods.Get(t.Context(), "hook", metav1.GetOptions{}); err == nil && pod.Status.Phase == corev1.PodPending {
				pod.Status.Phase = corev1.PodSucceeded
				_, _ = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
			}
			return false
		}
	})
	f.wantRevisions("m", "1 deployed")
	f.apply(m, Skipped, 1)
}

func TestFinished(t *testing.T) {
	job := func(condition, status string) string {
		return fmt.Sprintf(`{"kind":"Job","metadata":{"name":"j"},"status":{"conditions":[{"type":"Suspended","status":"True"},{"type":%q,"status":%q,"reason":"why"}]}}`, condition, status)
	}
	pod := func(phase string) string {
		return fmt.Sprintf(`{"kind":"Pod","metadata":{"name":"p"},"status":{"phase":%q}}`, phase)
	}
	tests := []struct {
		name, object string
		done         bool
		err          string
	}{
		{"new job", `{"kind":"Job","metadata":{"name":"j"}}`, false, ""},
		{"complete job", job("Complete", "True"), true, ""},
		{"job that will complete", job("Complete", "False"), false, ""},
		{"failed job", job("Failed", "True"), true, "job j failed: why"},
		{"new pod", `{"kind":"Pod","metadata":{"name":"p"}}`, false, ""},
		{"running pod", pod("Running"), false, ""},
		{"finished pod", pod("Succeeded"), true, ""},
		{"failed pod", pod("Failed"), true, "pod p failed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			must(t, u.UnmarshalJSON([]byte(strings.Replace(tt.object, "{", `{"apiVersion":"v1",`, 1))))
			done, err := finished(u)
			if done != tt.done || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
				t.Errorf("finished = %v, %v; want %v, %q", done, err, tt.done, tt.err)
			}
		})
	}
}

// An unchanged release costs a few reads by name, and neither a list nor a
// write: a consistent list of secrets waits in a busy cluster.
func TestRequestsOfSkip(t *testing.T) {
	f := startBlind(t)
	requests := f.record()
	m := module(t, "simple")
	f.apply(m, Installed, 1)
	secrets := "GET /api/v1/namespaces/" + f.namespace + "/secrets/sh.helm.release.v1.simple."
	want := []string{
		"GET /api/v1/namespaces/" + f.namespace + "/configmaps/simple-a?",
		"GET /api/v1/namespaces/" + f.namespace + "/configmaps/simple-b?",
		secrets + "v1?", secrets + "v2?", "GET /apis?",
	}
	var got []string
	f.eventually(func() bool {
		requests.take()
		f.apply(m, Skipped, 1)
		got = requests.take()
		slices.Sort(got)
		// Asked again when another test has defined a kind.
		return !slices.Contains(got, "GET /version?")
	})
	if !slices.Equal(got, want) {
		t.Errorf("requests are %q, want %q", got, want)
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
