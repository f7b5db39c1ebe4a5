package helm

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/helm/manifest"
)

const endingChart = `
-- templates/all.yaml --
apiVersion: batch/v1
kind: Job
metadata: {name: migrate}
spec:
  ttlSecondsAfterFinished: 60
  template: {spec: {restartPolicy: Never, containers: [{name: a, image: none}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: once}
spec: {restartPolicy: OnFailure, containers: [{name: a, image: none}]}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: flow, annotations: {addon-operator/ends: "true"}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: stays}, data: {text: {{ .Values.ending.text | quote }}}}
`

// end deletes what has done its work, as its controllers do.
func (f *fixture) end() {
	f.Helper()
	f.caughtUp()
	now, background := int64(0), metav1.DeletePropagationBackground
	core := f.kube.CoreV1()
	for name, err := range map[string]error{
		"migrate": f.kube.BatchV1().Jobs(f.namespace).Delete(f.Context(), "migrate", metav1.DeleteOptions{PropagationPolicy: &background}),
		"once":    core.Pods(f.namespace).Delete(f.Context(), "once", metav1.DeleteOptions{GracePeriodSeconds: &now}),
		"flow":    core.ConfigMaps(f.namespace).Delete(f.Context(), "flow", metav1.DeleteOptions{}),
	} {
		if err != nil {
			f.Fatalf("delete %s: %v", name, err)
		}
	}
	f.caughtUp()
}

func (f *fixture) wantEnds(outcome Outcome) {
	f.Helper()
	if len(outcome.Ends) != 3 || len(outcome.Objects) != 4 {
		f.Errorf("of %v these end: %v; want 3 of 4", outcome.Objects, outcome.Ends)
	}
}

// What ends by itself is not missing: not while the operator runs, nor after a restart, nor when another object is put
// back. An upgrade applies all of the chart, as Helm does. H13.
func TestEnds(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "ending", endingChart).with("text", "one")
	f.wantEnds(f.apply(m, Installed, 1))
	f.wantEnds(f.apply(m, Skipped, 1))
	f.end()
	f.wantEnds(f.apply(m, Skipped, 1))
	f.restart()
	requests := f.record()
	f.wantEnds(f.apply(m, Skipped, 1))
	if got := requests.take(); slices.ContainsFunc(got, func(r string) bool { return strings.Contains(r, "/jobs/migrate") || strings.Contains(r, "/pods/once") }) {
		t.Errorf("objects are read that have ended: %q", got)
	}
	f.deleteConfigMap("stays")
	f.caughtUp()
	f.wantEnds(f.apply(m, Upgraded, 2))
	if f.configMap("stays") == nil || f.configMap("flow") != nil {
		t.Error("what is missing was not put back, or what has ended was")
	}
	f.wantEnds(f.apply(m.with("text", "two"), Upgraded, 3))
	if _, err := f.kube.BatchV1().Jobs(f.namespace).Get(t.Context(), "migrate", metav1.GetOptions{}); err != nil || f.configMap("flow") == nil {
		t.Errorf("an upgrade did not apply what had ended: %v", err)
	}
}

// H13: what ends by itself is known by kind and fields, or by an annotation.
func TestWhatEnds(t *testing.T) {
	for text, want := range map[string]bool{
		`{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {ttlSecondsAfterFinished: 0}}`:                               true,
		`{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {}}`:                                                         false,
		`{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {restartPolicy: Never}}`:                                           true,
		`{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {}}`:                                                               false,
		`{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: a}}`:                               true,
		`{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {expiration: soon}}`:                                      false,
		`{apiVersion: v1, kind: Secret, metadata: {name: a}, type: bootstrap.kubernetes.io/token, stringData: {expiration: soon}}`: true,
		`{apiVersion: v1, kind: Secret, metadata: {name: a}, type: bootstrap.kubernetes.io/token, stringData: {token-id: a}}`:      false,
		`{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: a}}`:                                                  false,
		`{apiVersion: argoproj.io/v1alpha1, kind: Workflow, metadata: {name: a, annotations: {addon-operator/ends: "true"}}}`:      true,
		`{apiVersion: v1, kind: ConfigMap, metadata: {name: a, annotations: {addon-operator/ends: "false"}}}`:                      false,
		`{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: text}`:                                                       false,
	} {
		objects, err := manifest.Parse(text)
		if err != nil || len(objects) != 1 {
			t.Fatalf("%s: %v", text, err)
		}
		if got := ends(objects[0]); got != want {
			t.Errorf("%s ends: %v, want %v", text, got, want)
		}
	}
}
