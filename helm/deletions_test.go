package helm

import (
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lines are the lines of the log that have all these parts.
func (f *fixture) lines(parts ...string) (found []string) {
	for line := range strings.Lines(f.log.String()) {
		has := true
		for _, part := range parts {
			has = has && strings.Contains(line, part)
		}
		if has {
			found = append(found, line)
		}
	}
	return found
}

// P2.2: an upgrade deletes only objects whose annotations name the release, whatever the record of the revision before
// it lists, and logs what stays.
func TestUpgradeOfCraftedRecord(t *testing.T) {
	f := start(t)
	crafted(f)
	f.apply(module(t, "simple").with("text", "two"), Upgraded, 2)
	f.kept("", "stranger", "neighbour", "elsewhere", "kept", "simple-a", "simple-b")
	told := f.lines("level=WARN", "they stay", "ConfigMap "+f.namespace+"/stranger", "neighbour", "elsewhere", "kept")
	if len(told) != 1 || strings.Contains(told[0], "nowhere") {
		t.Errorf("lines about objects that stay: %q\nlog:\n%s", told, f.log)
	}
}

// P2.2: an object that a person has handed over, by taking the annotations off, stays when the chart drops it. What an
// upgrade deletes is logged, up to a limit.
func TestUpgradeLogsWhatItDeletes(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "many", `
-- templates/all.yaml --
{{ range $i, $e := until (int .Values.many.count) }}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: many-{{ $i }}}}
{{ end }}
`)
	f.apply(m.with("count", int64(24)), Installed, 1)
	f.patch("configmaps", "many-23", `{"metadata":{"annotations":{"meta.helm.sh/release-name":null,"meta.helm.sh/release-namespace":null}}}`)
	f.apply(m.with("count", int64(1)), Upgraded, 2)
	f.kept("the object that was handed over is deleted", "many-23")
	if f.configMap("many-22") != nil || f.configMap("many-0") == nil {
		t.Error("not exactly what left the chart is deleted")
	}
	if told := f.lines("level=WARN", "they stay", "many-23"); len(told) != 1 {
		t.Errorf("lines about the object that stays: %q", told)
	}
	told := f.lines("level=INFO", "objects that have left the chart are deleted", "release=many", "ConfigMap "+f.namespace+"/many-1 ", "count=22")
	if len(told) != 1 || strings.Count(told[0], "ConfigMap ") != maxNamedObjects {
		t.Errorf("lines about deletions: %q", told)
	}
}

// H1: the namespace of a record is where it is, whatever it contains: nothing is rendered for another one.
func TestUpgradeIgnoresTheNamespaceInARecord(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "where", `
-- templates/a.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: where, namespace: {{ .Release.Namespace }}}
data: {text: {{ .Values.where.text | quote }}}
`).with("text", "one")
	f.apply(m, Installed, 1)
	f.craft("where", 1, func(_ *corev1.Secret, rel *release.Release) { rel.Namespace = "default" })
	f.apply(m.with("text", "two"), Upgraded, 2)
	if got := f.configMap("where"); got["text"] != "two" {
		t.Errorf("the object is %v", got)
	}
	if rel := f.lastRelease("where"); rel.Namespace != f.namespace {
		t.Errorf("the new record names namespace %s", rel.Namespace)
	}
}

// scaler is a module with an object whose API had earlier versions, and one of a kind that no server has.
func (f *fixture) scaler() Module {
	f.Helper()
	m := moduleOf(f, "scaler", `
-- templates/all.yaml --
{{ if .Values.scaler.scales }}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: scaler}
spec: {minReplicas: {{ .Values.scaler.min }}, maxReplicas: 9, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: none}}
{{ end }}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: stays}}
`).with("scales", true).with("min", int64(2))
	f.apply(m, Installed, 1)
	f.craft("scaler", 1, func(_ *corev1.Secret, rel *release.Release) { // as an older Kubernetes had it
		rel.Manifest = strings.ReplaceAll(rel.Manifest, "autoscaling/v2", "autoscaling/v2beta2") +
			"---\napiVersion: gone.example.com/v1\nkind: Gone\nmetadata: {name: lost}\n"
	})
	return m
}

func (f *fixture) hasScaler() bool {
	f.Helper()
	_, err := f.kube.AutoscalingV2().HorizontalPodAutoscalers(f.namespace).Get(f.Context(), "scaler", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		f.Fatal(err)
	}
	return err == nil
}

// H12: an object that a record has in a version that is no longer served is deleted in another version of its group. One
// whose kind has no version is named.
func TestRemovedInAnotherVersion(t *testing.T) {
	for name, remove := range map[string]func(f *fixture, m Module){
		"uninstall": func(f *fixture, _ Module) { f.uninstall("scaler", true) },
		"purge":     func(f *fixture, _ Module) { f.purge("scaler", true) },
		"upgrade":   func(f *fixture, m Module) { f.apply(m.with("scales", false), Upgraded, 2) },
		"after a failed revision": func(f *fixture, _ Module) {
			f.setStatus("scaler", 1, "failed")
			f.uninstall("scaler", true)
		},
		"after a failed first revision": func(f *fixture, m Module) {
			f.setStatus("scaler", 1, "failed")
			f.apply(m.with("scales", false), Installed, 1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			m := f.scaler()
			remove(f, m)
			if f.hasScaler() {
				t.Error("the object stays")
			}
			if told := f.lines("level=WARN", "objects cannot be deleted", "Gone lost"); len(told) != 1 {
				t.Errorf("lines about an object of an unknown kind: %q\nlog:\n%s", told, f.log)
			}
			if got := f.told(); len(got) != 1 || !strings.Contains(got[0], "release scaler: objects cannot be deleted") {
				t.Errorf("notified %q", got)
			}
		})
	}
}

// H5: an object whose version is no longer served is updated as usual when the chart has it in another one.
func TestUpgradeToAnotherVersion(t *testing.T) {
	f := start(t)
	m := f.scaler()
	f.apply(m.with("min", int64(3)), Upgraded, 2)
	scaler, err := f.kube.AutoscalingV2().HorizontalPodAutoscalers(f.namespace).Get(t.Context(), "scaler", metav1.GetOptions{})
	if err != nil || *scaler.Spec.MinReplicas != 3 {
		t.Errorf("the object is %+v, %v", scaler.Spec, err)
	}
}
