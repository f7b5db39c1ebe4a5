package helm

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// H8: whatever a killed operator left, the next Apply goes on.
func TestApplyAfterKill(t *testing.T) {
	for _, status := range []string{"pending-install", "pending-upgrade", "pending-rollback", "uninstalling", "unknown", "failed"} {
		t.Run(status+" with a deployed revision", func(t *testing.T) {
			f := start(t)
			m := module(t, "simple").with("text", "one")
			f.apply(m, Installed, 1)
			f.apply(m.with("text", "two"), Upgraded, 2)
			f.setStatus("simple", 2, status)
			f.setStatus("simple", 1, "deployed")
			f.deleteConfigMap("simple-b")
			f.restart()
			f.apply(m.with("text", "two"), Upgraded, 3)
			if f.configMap("simple-b") == nil || f.configMap("simple-a")["text"] != "two" {
				t.Error("the objects are not as the module wants them")
			}
			f.apply(m.with("text", "two"), Skipped, 3)
			f.wantRevisions("simple", "1 superseded", "2 failed", "3 deployed")
		})
		t.Run(status+" alone", func(t *testing.T) {
			f := start(t)
			m := module(t, "simple").with("text", "one")
			f.apply(m, Installed, 1)
			f.setStatus("simple", 1, status)
			f.deleteConfigMap("simple-b")
			f.apply(m, Installed, 1) // the remembered state is not trusted
			f.kept("simple-b is absent", "simple-b")
			f.apply(m, Skipped, 1)
			f.wantRevisions("simple", "1 deployed")
		})
	}
}

// H9, X17: a failed first install leaves nothing stuck, runs install hooks
// again, and neither deletes nor forgets what it made.
func TestApplyFailedFirstInstall(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "first", `
-- templates/hook.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: hook, annotations: {helm.sh/hook: pre-install}}}
-- templates/claim.yaml --
{{ if .Values.first.claim }}
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
{{ end }}
-- templates/config.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: config}, data: {{ toJson .Values.first.data }}}
-- templates/dropped.yaml --
{{ if .Values.first.dropped }}
{apiVersion: v1, kind: ConfigMap, metadata: {name: dropped}}
{{ end }}
-- templates/service.yaml --
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: {{ .Values.first.port }}}]}}
`)
	m = m.with("claim", true).with("dropped", true).with("data", map[string]any{"a": "1", "b": "2"})
	broken := m.with("port", int64(-1))
	err := f.refuse(broken, Invalid)
	wantError(t, err, "web")
	f.wantRevisions("first", "1 failed")
	claim := f.claim("data")
	f.refuse(broken, Invalid)
	f.wantRevisions("first", "1 failed") // no pile of failed revisions
	f.deleteConfigMap("hook")

	fixed := m.with("port", int64(80)).with("dropped", false).with("claim", false).with("data", map[string]any{"a": "1"})
	f.apply(fixed, Installed, 1)
	f.kept("the pre-install hook did not run again", "hook")
	if data := f.configMap("config"); len(data) != 1 {
		t.Errorf("config = %v: a field of the failed revision stays", data)
	}
	f.gone("an object that left the chart stays", "dropped")
	if f.claim("data") != claim {
		t.Error("the claim was deleted, and its data with it")
	}
	f.apply(fixed, Skipped, 1)
}

func (f *fixture) claim(name string) (uid string) {
	f.Helper()
	c, err := f.kube.CoreV1().PersistentVolumeClaims(f.namespace).Get(f.Context(), name, metav1.GetOptions{})
	must(f, err)
	if c.DeletionTimestamp != nil {
		return "deleting"
	}
	return string(c.UID)
}

// What a failed upgrade created is not forgotten: Helm compares with the last
// deployed revision only.
func TestApplyAfterFailedUpgrade(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "orphans", `
-- templates/a.yaml --
{{ range .Values.orphans.names }}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ . }}}}
{{ end }}
---
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: {{ .Values.orphans.port }}}]}}
`).with("port", int64(80)).with("names", []any{"one"})
	f.apply(m, Installed, 1)
	f.refuse(m.with("port", int64(-1)).with("names", []any{"one", "two"}), Invalid)
	if f.configMap("two") == nil {
		t.Fatal("the failed upgrade did not create its object; the test proves nothing")
	}
	f.apply(m.with("names", []any{"one", "three"}), Upgraded, 3)
	f.gone("the object of the failed revision stays", "two")
	f.refuse(m.with("port", int64(-1)).with("names", []any{"four"}), Invalid)
	f.uninstall("orphans", true)
	for _, name := range []string{"one", "three", "four"} {
		if f.configMap(name) != nil {
			t.Errorf("%s stays after the uninstall", name)
		}
	}
	f.wantRevisions("orphans")
}

// H7: objects of nobody are taken over with their own fields, objects of another
// release are not.
func TestApplyForeignObjects(t *testing.T) {
	f := start(t)
	m := module(t, "simple").with("text", "one")
	f.create("simple-a", map[string]string{"text": "before", "own": "kept"}, nil)
	them := map[string]string{ownerName: "other", ownerNamespace: f.namespace}
	f.create("simple-b", nil, them)
	err := f.refuse(m, Foreign)
	if !strings.Contains(err.Error(), "/simple-b belongs to release other in namespace "+f.namespace) || strings.Contains(err.Error(), "simple-a") {
		t.Errorf("error = %v", err)
	}
	f.wantRevisions("simple")
	f.deleteConfigMap("simple-b")
	f.apply(m, Installed, 1)
	if got := f.configMap("simple-a"); got["text"] != "one" || got["own"] != "kept" {
		t.Errorf("simple-a = %v", got)
	}
	// Another release took simple-b over: our upgrade is refused, and our
	// uninstall leaves it alone.
	f.deleteConfigMap("simple-b")
	f.create("simple-b", nil, them)
	f.refuse(m.with("text", "two"), Foreign)
	f.uninstall("simple", true)
	if f.configMap("simple-b") == nil || f.configMap("simple-a") != nil {
		t.Error("uninstall deleted the foreign object, or left our own")
	}
}

// H7: two modules with the same object. The second finds out in the middle of its first
// install: it takes back what it made, touches nothing of the first, and names both. When
// the first is gone, it is installed.
func TestApplySameObject(t *testing.T) {
	f := start(t)
	m := module(t, "simple").with("text", "one")
	f.apply(m, Installed, 1)
	second := moduleOf(t, "second", `
-- templates/all.yaml --
{apiVersion: v1, kind: ServiceAccount, metadata: {name: made-first}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: simple-a}, data: {text: second}}
---
{apiVersion: v1, kind: Service, metadata: {name: later}, spec: {ports: [{port: 80}]}}
`)
	err := f.refuse(second, Foreign)
	wantError(t, err, "release second: ", "simple-a belongs to release simple in namespace "+f.namespace, "remove it from one of the two charts")
	f.wantRevisions("second")
	core := f.kube.CoreV1()
	if _, err := core.ServiceAccounts(f.namespace).Get(t.Context(), "made-first", metav1.GetOptions{}); err == nil {
		t.Error("what the refused install made is still there")
	}
	if _, err := core.Services(f.namespace).Get(t.Context(), "later", metav1.GetOptions{}); err == nil {
		t.Error("the refused install went on")
	}
	if got := f.configMap("simple-a")["text"]; got != "one" {
		t.Errorf("text = %q", got)
	}
	f.refuse(second, Foreign) // each try says so
	f.apply(m, Skipped, 1)
	f.uninstall("simple", true)
	f.apply(second, Installed, 1)
	f.apply(second, Skipped, 1)
}

// A corrupted record never blocks a release; Helm's own driver would skip it
// and fail on the existing name each time.
func TestApplyCorruptedRecord(t *testing.T) {
	corrupt := func(s *corev1.Secret) { s.Data["release"] = []byte("!") }
	t.Run("the newest", func(t *testing.T) {
		f := start(t)
		m := module(t, "simple").with("text", "one")
		f.apply(m, Installed, 1)
		f.apply(m.with("text", "two"), Upgraded, 2)
		f.editRecord("simple", 2, corrupt)
		f.apply(m.with("text", "three"), Upgraded, 2)
		f.apply(m.with("text", "three"), Skipped, 2)
	})
	t.Run("the only one", func(t *testing.T) {
		f := start(t)
		m := module(t, "simple").with("text", "one")
		f.apply(m, Installed, 1)
		f.editRecord("simple", 1, corrupt)
		f.apply(m.with("text", "two"), Installed, 1)
		f.apply(m.with("text", "two"), Skipped, 1)
	})
	t.Run("uninstall", func(t *testing.T) {
		f := start(t)
		m := module(t, "simple").with("text", "one")
		f.apply(m, Installed, 1)
		f.apply(m.with("text", "two"), Upgraded, 2)
		f.editRecord("simple", 2, corrupt)
		f.uninstall("simple", true)
		f.wantRevisions("simple")
		f.gone("simple-a stays", "simple-a")
	})
}

// An immutable field is named with a way out; the release recovers.
func TestApplyImmutable(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "fixed", `
-- templates/a.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  replicas: 0
  selector: {matchLabels: {app: {{ .Values.fixed.app }}}}
  template:
    metadata: {labels: {app: {{ .Values.fixed.app }}}}
    spec: {containers: [{name: c, image: none}]}
`).with("app", "one")
	f.apply(m, Installed, 1)
	err := f.refuse(m.with("app", "two"), Immutable)
	wantError(t, err, `"app" with kind Deployment`, "spec.selector", "field is immutable", "delete the object")
	must(t, f.kube.AppsV1().Deployments(f.namespace).Delete(t.Context(), "app", metav1.DeleteOptions{}))
	f.apply(m.with("app", "two"), Upgraded, 3)
}

// Texts of Secrets never appear in errors.
func TestApplyMasksSecrets(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "masked", `
-- templates/a.yaml --
apiVersion: v1
kind: Secret
metadata: {name: masked}
type: {{ .Values.masked.type }}
data: {password: {{ .Values.masked.password }}}
`).with("type", "Opaque").with("password", "aHVudGVyMg==")
	f.apply(m, Installed, 1)
	err := f.refuse(m.with("password", "hunter2-is-not-base64!"), Invalid)
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error shows the secret: %v", err)
	}
}

// A cancelled context stops the writes at once; the next Apply goes on.
func TestApplyCancelled(t *testing.T) {
	f := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var after atomic.Int64
	var cancelled atomic.Bool
	f.config.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/configmaps") {
				if cancelled.Load() {
					after.Add(1)
				}
				cancelled.Store(true)
				cancel()
			}
			return next.RoundTrip(r)
		})
	}
	f.restart()
	m := moduleOf(t, "many", `
-- templates/a.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: first}}
---
{apiVersion: v1, kind: Service, metadata: {name: later}, spec: {ports: [{port: 80}]}}
`)
	_, err := f.client.Apply(ctx, m)
	var problem *Error
	if !errors.As(err, &problem) || problem.Kind != Cancelled || !errors.Is(err, context.Canceled) {
		t.Fatalf("error = %v", err)
	}
	if _, err := f.kube.CoreV1().Services(f.namespace).Get(t.Context(), "later", metav1.GetOptions{}); err == nil || after.Load() > 0 {
		t.Error("writes went on after the context ended")
	}
	f.wantRevisions("many", "1 failed") // the failure itself is recorded
	f.config.WrapTransport = nil
	f.restart()
	f.apply(m, Installed, 1)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An API server that is away is Unavailable, not a fault of the chart.
func TestApplyUnavailable(t *testing.T) {
	c, err := New(Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}, Namespace: "n"})
	must(t, err)
	_, err = c.Apply(t.Context(), module(t, "simple"))
	var problem *Error
	if !errors.As(err, &problem) || problem.Kind != Unavailable {
		t.Errorf("apply: %v", err)
	}
	if _, err = c.Releases(t.Context()); !errors.As(err, &problem) || problem.Kind != Unavailable {
		t.Errorf("releases: %v", err)
	}
}

// H12, E10: uninstall with all history; a missing release is no error.
func TestUninstall(t *testing.T) {
	f := start(t)
	f.uninstall("nothing", false)
	m := module(t, "simple")
	f.apply(m, Installed, 1)
	f.apply(m.with("text", "two"), Upgraded, 2)
	f.apply(module(t, "lookup"), Installed, 1)
	if names, err := f.client.Releases(t.Context()); err != nil || !slices.Equal(names, []string{"lookup", "simple"}) {
		t.Errorf("releases = %v, %v", names, err)
	}
	f.uninstall("simple", true)
	f.uninstall("simple", false)
	f.wantRevisions("simple")
	if f.configMap("simple-a") != nil || f.configMap("simple-b") != nil || f.configMap("lookup") == nil {
		t.Error("uninstall left objects, or took those of another release")
	}
	f.apply(m, Installed, 1)
	for _, status := range []string{"pending-install", "pending-upgrade", "failed", "uninstalling", "uninstalled"} {
		f.setStatus("simple", 1, status)
		f.uninstall("simple", true)
		f.wantRevisions("simple")
		f.apply(m, Installed, 1)
	}
}

// answering is a transport that answers some requests itself, as long as it is on.
func (f *fixture) answering(method, path string, code int, on *atomic.Bool) {
	f.config.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if !on.Load() || r.Method != method || !strings.HasSuffix(r.URL.Path, path) {
				return next.RoundTrip(r)
			}
			return &http.Response{
				StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
				Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader("{}")),
			}, nil
		})
	}
	f.restart()
}

// The deletion of a record is answered, but not done, as by a broken proxy: the next install finds the record, reads
// it, and continues from it. H8.
func TestRecordThatWasNotDeleted(t *testing.T) {
	f := start(t)
	var on atomic.Bool
	f.answering(http.MethodDelete, "/secrets/sh.helm.release.v1.simple.v1", http.StatusOK, &on)
	m := module(t, "simple").with("text", "one")
	f.apply(m, Installed, 1)
	on.Store(true)
	f.uninstall("simple", true)
	wantError(t, second(f.client.Apply(t.Context(), m)), "already exists")
	on.Store(false)
	if outcome, err := f.client.Apply(t.Context(), m); err != nil {
		t.Errorf("the next attempt: %+v, %v", outcome, err)
	}
	f.kept("its object is absent", "simple-a")
}

// guarded makes a password once, and wants it back at an upgrade.
const guarded = `
-- templates/secret.yaml --
{{- $known := (lookup "v1" "ConfigMap" .Release.Namespace "guarded").data }}
{{- if and .Release.IsUpgrade (not $known) }}{{ fail "PASSWORDS ERROR: give the current password" }}{{ end }}
apiVersion: v1
kind: ConfigMap
metadata: {name: guarded}
data: {password: {{ $known | default dict | dig "password" (randAlphaNum 10) | quote }}}
`

// A chart that makes a password once, and wants it at an upgrade, can be installed, and is left alone from then on.
func TestApplyPasswordOfTheInstallation(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "guarded", guarded)
	if shown, err := f.client.Show(t.Context(), m); err != nil || len(shown) != 1 {
		t.Errorf("shown are %v, %v", shown, err)
	}
	f.apply(m, Installed, 1)
	password := f.configMap("guarded")["password"]
	f.apply(m, Skipped, 1)
	f.restart()
	f.apply(m, Skipped, 1)
	if got := f.configMap("guarded")["password"]; got != password {
		t.Errorf("password %q, then %q", password, got)
	}
	f.deleteConfigMap("guarded")
	f.restart()
	wantError(t, f.refuse(m, Render), "PASSWORDS ERROR")
}

// H8, H9: a chart that refuses upgrades without the password of its installation is installed after one that did not
// come to the password, and after one that was uninstalled, also by an operator that starts again.
func TestApplyPasswordOfAnInstallationThatNeverWas(t *testing.T) {
	for _, status := range []string{"pending-install", "failed", "uninstalled"} {
		for name, again := range map[string]func(*fixture){"restarted": (*fixture).restart, "known": (*fixture).caughtUp} {
			t.Run(status+" and "+name, func(t *testing.T) {
				f := start(t)
				m := moduleOf(t, "guarded", guarded)
				f.apply(m, Installed, 1)
				f.setStatus("guarded", 1, status)
				f.deleteConfigMap("guarded")
				again(f)
				want := 1
				if status == "uninstalled" {
					want = 2
				}
				f.apply(m, Installed, want)
				f.apply(m, Skipped, want)
				if f.configMap("guarded")["password"] == "" {
					t.Error("there is no password")
				}
			})
		}
	}
}

// A deployed release remains one while its records are not known, or doubted: it is not rendered as for an
// installation, with another password.
func TestShowPasswordOfADoubtedRelease(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "guarded", guarded)
	f.apply(m, Installed, 1)
	f.deleteConfigMap("guarded")
	for name, doubt := range map[string]func(){
		"not listed": func() { f.blind = true; f.restart() },
		"doubted":    func() { f.client.root.records.doubt("guarded") },
	} {
		doubt()
		if shown, err := f.client.Show(t.Context(), m); err == nil || !strings.Contains(err.Error(), "PASSWORDS ERROR") {
			t.Errorf("%s: shown are %v, %v", name, shown, err)
		}
	}
}
