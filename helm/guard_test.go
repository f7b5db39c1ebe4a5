package helm

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// guarded is a module with a claim, a namespace, a definition and two ConfigMaps, each of which values can drop.
func (f *fixture) guarded() Module {
	f.Helper()
	return moduleOf(f, "guarded", strings.NewReplacer("NAMESPACE", f.namespace+"-own", "GROUP", groupOf(f.namespace)).Replace(`
-- templates/all.yaml --
{{ if .Values.guarded.claim }}
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: {{ .Values.guarded.claim }}{{ if .Values.guarded.keep }}, annotations: {helm.sh/resource-policy: keep}{{ end }}}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
{{ end }}
---
{{ if .Values.guarded.cluster }}
{apiVersion: v1, kind: Namespace, metadata: {name: NAMESPACE}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: guards.GROUP}
spec:
  group: GROUP
  scope: Namespaced
  names: {plural: guards, singular: guard, kind: Guard}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
{{ end }}
{{ range .Values.guarded.maps }}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ . }}}}
{{ end }}
`)).with("maps", []any{"a", "b"})
}

// held expects that an upgrade is held back for these objects, and returns what allows it.
func (f *fixture) held(m Module, why string, objects ...string) string {
	f.Helper()
	before := f.revisions(m.Name)
	outcome := f.apply(m, Held, 0)
	var got []string
	for _, o := range outcome.Held.Objects {
		got = append(got, o.String())
	}
	if fmt.Sprint(got) != fmt.Sprint(objects) || !strings.Contains(outcome.Held.Why, why) {
		f.Errorf("held for %q, because %s", got, outcome.Held.Why)
	}
	plan, err := f.client.Plan(f.Context(), m)
	if err != nil || plan.Held == nil || plan.Held.Confirm != outcome.Held.Confirm || plan.Action == Held || plan.Action == Skipped {
		f.Errorf("plan: %+v, %v", plan, err)
	}
	if after := f.revisions(m.Name); fmt.Sprint(after) != fmt.Sprint(before) {
		f.Errorf("revisions %q, before: %q", after, before)
	}
	return outcome.Held.Confirm
}

// P1: an upgrade that would delete data waits for a person, who allows exactly these objects. Taking the change back ends
// it, and what a person has deleted, handed over or marked to be kept does not count.
func TestUpgradeThatDeletesDataIsHeld(t *testing.T) {
	f := start(t)
	m := f.guarded().with("claim", "data").with("cluster", true)
	f.apply(m, Installed, 1)
	t.Cleanup(func() {
		_ = f.crds().Delete(context.Background(), "guards."+groupOf(f.namespace), metav1.DeleteOptions{})
		_ = f.kube.CoreV1().Namespaces().Delete(context.Background(), f.namespace+"-own", metav1.DeleteOptions{})
	})

	f.apply(m.with("maps", []any{"a"}), Upgraded, 2) // nothing of the kind
	claim := "PersistentVolumeClaim " + f.namespace + "/data"
	all := []string{"CustomResourceDefinition guards." + groupOf(f.namespace), "Namespace " + f.namespace + "-own", claim}
	less := m.with("claim", "").with("cluster", false)
	f.held(less.with("maps", []any{}), "all objects", append([]string{"ConfigMap " + f.namespace + "/a"}, all...)...)
	some := f.held(less, "data", all...)
	if want := "guarded:CustomResourceDefinition.apiextensions.k8s.io/guards." + groupOf(f.namespace) + ",Namespace/" + f.namespace + "-own,PersistentVolumeClaim/" + f.namespace + "/data"; some != want && !strings.HasPrefix(some, "guarded:3-objects-") {
		t.Errorf("the confirmation is %s", some)
	}
	one := m.with("claim", "storage")
	confirm := f.held(one, "data", claim)
	if want := "guarded:PersistentVolumeClaim/" + f.namespace + "/data"; confirm != want {
		t.Errorf("the confirmation is %s, want %s", confirm, want)
	}
	if got := f.apply(one, Held, 0); len(got.Objects) != 4 || got.Revision != 2 {
		t.Errorf("while it is held, the release has %v in revision %d", got.Objects, got.Revision)
	}
	less.Allowed, one.Allowed = confirm, some // each for the other
	f.held(less, "data", all...)
	f.held(one, "data", claim)
	f.apply(m.with("maps", []any{"a"}), Skipped, 2) // taken back

	one.Allowed = confirm
	f.apply(one, Upgraded, 3)
	f.eventually(func() bool {
		live, err := f.kube.CoreV1().PersistentVolumeClaims(f.namespace).Get(t.Context(), "data", metav1.GetOptions{})
		return err != nil || live.DeletionTimestamp != nil
	})

	one.Allowed = ""
	f.patch("persistentvolumeclaims", "storage", `{"metadata":{"annotations":{"helm.sh/resource-policy":"keep"}}}`)
	f.apply(one.with("claim", "third"), Upgraded, 4)
	f.patch("persistentvolumeclaims", "third", `{"metadata":{"annotations":{"meta.helm.sh/release-name":null,"meta.helm.sh/release-namespace":null}}}`)
	f.apply(one.with("claim", ""), Upgraded, 5)
	for _, name := range []string{"storage", "third"} {
		if live, err := f.kube.CoreV1().PersistentVolumeClaims(f.namespace).Get(t.Context(), name, metav1.GetOptions{}); err != nil || live.DeletionTimestamp != nil {
			t.Errorf("claim %s: %v, %v", name, live.DeletionTimestamp, err)
		}
	}
}

// P2: a purge leaves the claim that only an older revision has; the directory may be gone by mistake. The others are
// played in cmd/e2e.
func TestPurgeLeavesDataOfAnOlderRevision(t *testing.T) {
	f := start(t)
	m := f.guarded().with("claim", "data")
	f.apply(m, Installed, 1)
	before := f.claim("data")
	bad := m.with("claim", "").with("maps", []any{"a", "_"})
	bad.Allowed = "guarded:PersistentVolumeClaim/" + f.namespace + "/data"
	f.refuse(bad, Invalid) // it drops the claim, and fails before the claim is deleted
	f.purge("guarded", true)
	f.wantRevisions("guarded")
	if f.configMap("a") != nil || f.claim("data") != before {
		t.Error("an object without data is left, or the claim is gone")
	}
}

// P1: an upgrade that would leave nothing of a release waits for a person; not one that gives its only object another
// name.
func TestUpgradeThatDeletesEverythingIsHeld(t *testing.T) {
	f := start(t)
	m := f.guarded()
	f.apply(m.with("maps", []any{"a"}), Installed, 1)
	f.apply(m.with("maps", []any{"b"}), Upgraded, 2)
	f.held(m.with("maps", []any{}), "renders no objects", "ConfigMap "+f.namespace+"/b")
	f.apply(m, Upgraded, 3)
	empty := m.with("maps", []any{})
	empty.Allowed = f.held(empty, "renders no objects", "ConfigMap "+f.namespace+"/a", "ConfigMap "+f.namespace+"/b")
	f.held(m.with("maps", []any{"c"}), "none of them", "ConfigMap "+f.namespace+"/a", "ConfigMap "+f.namespace+"/b")
	f.setStatus("guarded", 3, "failed") // a repair is as careful
	f.held(m.with("maps", []any{"c"}), "none of them", "ConfigMap "+f.namespace+"/a", "ConfigMap "+f.namespace+"/b")
	f.deleteConfigMap("a")
	f.apply(m.with("maps", []any{"c"}), Upgraded, 4) // one is left, and it has another name
	empty.Allowed = f.held(empty, "renders no objects", "ConfigMap "+f.namespace+"/c")
	f.apply(empty, Upgraded, 5)
	f.gone("what a person has allowed to delete stays", "c")
}

// P1: a StatefulSet counts as data only if its claims are deleted with it.
func TestUpgradeThatDeletesAStatefulSet(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "sets", `
-- templates/all.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: stays}}
---
{{ if .Values.sets.when }}
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: set}
spec:
  replicas: 0
  serviceName: set
  persistentVolumeClaimRetentionPolicy: {whenDeleted: {{ .Values.sets.when }}, whenScaled: Retain}
  selector: {matchLabels: {app: set}}
  template:
    metadata: {labels: {app: set}}
    spec: {containers: [{name: c, image: none}]}
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}}]
{{ end }}
`)
	f.apply(m.with("when", string(appsv1.DeletePersistentVolumeClaimRetentionPolicyType)), Installed, 1)
	f.held(m.with("when", ""), "data", "StatefulSet "+f.namespace+"/set")
	f.purge("sets", true)
	f.apply(m.with("when", string(appsv1.DeletePersistentVolumeClaimRetentionPolicyType)), Installed, 1)
	if told := f.lines("objects with data stay", "StatefulSet "+f.namespace+"/set"); len(told) != 1 {
		t.Errorf("the purge told %q\n%s", told, f.log)
	}
	f.apply(m.with("when", string(appsv1.RetainPersistentVolumeClaimRetentionPolicyType)), Upgraded, 2)
	f.apply(m.with("when", ""), Upgraded, 3)
}

// P1.2: a confirmation is for these objects and no others, and can be pasted into a shell.
func TestConfirmationOfObjects(t *testing.T) {
	objects := func(n int, name string) (all []Object) {
		for i := range n {
			all = append(all, Object{Namespace: "ns", Name: fmt.Sprintf("%s%d", name, i)})
		}
		return all
	}
	seen := map[string]bool{}
	for _, list := range [][]Object{objects(1, "a"), objects(2, "a"), objects(1, "b"), objects(90, "a"), objects(91, "a"), objects(90, "b"), objects(1, "$(rm)"), objects(1, "a b")} {
		text := confirmation("m", list)
		if seen[text] || len(text) > maxConfirmation || strings.ContainsAny(text, "$() ") || !strings.HasPrefix(text, "m:") {
			t.Errorf("%d objects: %s", len(list), text)
		}
		seen[text] = true
	}
}
