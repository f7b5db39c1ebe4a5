package helm

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fixedChart has a field that never changes, and an object behind it that is refused when it shall.
const fixedChart = `
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
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: app}
spec: {maxReplicas: {{ .Values.fixed.most }}, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: app}}
`

const recreating = "-- Chart.yaml --\napiVersion: v2\nname: fixed\nversion: 1.0.0\nannotations: {" + RecreateAnnotation + ": Deployment}\n"

func (f *fixture) selects(want string) {
	f.Helper()
	app, err := f.kube.AppsV1().Deployments(f.namespace).Get(f.Context(), "app", metav1.GetOptions{})
	if err != nil || app.Spec.Selector.MatchLabels["app"] != want {
		f.Errorf("deployment: %v, %v; want one that selects %s", app.Spec.Selector, err, want)
	}
}

// What may be recreated is recreated whatever Helm does over an object that exists: objects of nobody, what a failed
// first revision has left, and a release whose records are lost.
func TestRecreateWhenInstalling(t *testing.T) {
	const failed = "a failed first revision"
	for situation, before := range map[string]func(*fixture, Module) string{
		"objects of nobody": (*fixture).ofNobody, failed: (*fixture).failedRevision, "lost records": (*fixture).lostRecords,
	} {
		t.Run(situation, func(t *testing.T) {
			f := start(t)
			m := moduleOf(t, "fixed", recreating+fixedChart).with("app", "one")
			if situation != failed {
				f.apply(m.with("most", int64(8)), Installed, 1)
			}
			before(f, m)
			f.restart()
			f.selects("one")
			f.apply(m.with("app", "two").with("most", int64(8)), Installed, 1)
			f.selects("two")
			if !strings.Contains(f.log.String(), "deleted and created again") {
				t.Error("the log does not tell of it")
			}
		})
	}
}

// forgetRelease deletes the records of all releases, as a person may.
func (f *fixture) forgetRelease() {
	f.Helper()
	must(f, f.kube.CoreV1().Secrets(f.namespace).DeleteCollection(f.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "owner=helm"}))
}

// HELM_TIMEOUT ends the waiting for a hook that does not finish, and for an object that does not go; the release
// recovers when it does.
func TestTimeout(t *testing.T) {
	f := start(t)
	const short, long = 300 * time.Millisecond, time.Minute
	f.client.root.options.Timeout = short
	err := f.refuse(moduleOf(t, "hooked", podHook), Failed)
	wantError(t, err, "did not finish within 300ms")
	f.client.root.options.Timeout = long
	// Somebody deletes the pod: the next attempt makes another one.
	must(t, f.kube.CoreV1().Pods(f.namespace).Delete(t.Context(), "hook", metav1.DeleteOptions{}))
	f.eventually(func() bool {
		_, err := f.kube.CoreV1().Pods(f.namespace).Get(t.Context(), "hook", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	done := f.applying(t.Context(), moduleOf(t, "hooked", podHook))
	f.finishHook(corev1.PodSucceeded)
	if err := <-done; err != nil {
		t.Errorf("the next attempt: %v", err)
	}

	m := moduleOf(t, "fixed", recreating+fixedChart).with("most", int64(8))
	f.apply(m.with("app", "one"), Installed, 1)
	f.patch("deployments", "app", `{"metadata": {"finalizers": ["example.org/held"]}}`)
	f.client.root.options.Timeout = short
	err = f.refuse(m.with("app", "two"), Invalid)
	wantError(t, err, "still exists 300ms after its deletion; does it have a finalizer?")
	f.patch("deployments", "app", `{"metadata": {"finalizers": null}}`)
	f.client.root.options.Timeout = long
	f.apply(m.with("app", "two"), Upgraded, 3)
	f.selects("two")
}

// Whatever has become of a release and its object, by failed revisions, lost records, objects that belong to
// no release, an uninstall or a new process: with values that can be deployed, what may be recreated is as
// the chart says, at each attempt. Stock Helm has nothing to compare with.
func TestDifferentialRecreate(t *testing.T) {
	const sequences, share = 3, 2
	for n := range uint64(sequences) {
		t.Run("", func(t *testing.T) {
			f, rnd := start(t), rand.New(rand.NewPCG(7, n))
			m := moduleOf(t, "fixed", recreating+fixedChart)
			story := ""
			for range *differentialSteps / sequences / share {
				app := []string{"one", "two", "three"}[rnd.IntN(3)]
				m = m.with("app", app)
				before := []func(*fixture, Module) string{(*fixture).nothing, (*fixture).failedRevision, (*fixture).lostRecords, (*fixture).ofNobody, (*fixture).uninstalled}
				story += before[rnd.IntN(len(before))](f, m.with("app", []string{"one", "two"}[rnd.IntN(2)]))
				if rnd.IntN(2) == 0 {
					f.restart()
					story += "restart, "
				}
				f.caughtUp()
				story += app + ", "
				if outcome, err := f.client.Apply(t.Context(), m.with("most", int64(8))); err != nil {
					t.Fatalf("%s%s: %v", story, outcome.Action, err)
				}
				f.selects(app)
			}
		})
	}
}

func (f *fixture) nothing(Module) string { return "" }

func (f *fixture) failedRevision(m Module) string {
	f.Helper()
	if _, err := f.client.Apply(f.Context(), m.with("most", int64(-1))); err == nil {
		f.Fatal("an object that the API server refuses was deployed")
	}
	return "failed revision, "
}

func (f *fixture) lostRecords(Module) string {
	f.forgetRelease()
	f.restart()
	return "lost records, "
}

// ofNobody takes the records away, and the annotations that say whose the object is.
func (f *fixture) ofNobody(m Module) string {
	f.Helper()
	f.lostRecords(m)
	orphan := []byte(`{"metadata": {"annotations": {"meta.helm.sh/release-name": null, "meta.helm.sh/release-namespace": null}}}`)
	_, err := f.kube.AppsV1().Deployments(f.namespace).Patch(f.Context(), "app", types.MergePatchType, orphan, metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		f.Fatal(err)
	}
	return "of no release, "
}

func (f *fixture) uninstalled(m Module) string {
	f.Helper()
	must(f, second(f.client.Uninstall(f.Context(), m)))
	return "uninstalled, "
}
