package helm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	appsv1 "k8s.io/api/apps/v1"
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

// H12: an object that a record has in a version that is no longer served is deleted in another version of its group.
// One whose kind has no version is named.
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

// P1: an upgrade that would delete data waits for a person, who allows exactly these objects. Taking the change back
// ends it, and what a person has deleted, handed over or marked to be kept does not count.
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

// P8: content that was lost deletes and changes nothing, also after a restart. What was removed on purpose goes.
func TestApplyLostContent(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "emptied", `
-- Chart.yaml --
{apiVersion: v2, name: emptied, version: 1.0.0, dependencies: [{name: sub, version: 1.0.0}]}
-- values.yaml --
emptied: {size: 1}
plain: 2
-- templates/_none.tpl --
-- templates/a.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: emptied-a}, data: {plain: "{{ .Values.plain }}"}}
-- templates/b.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: emptied-b}}
-- ci/values.yaml --
a: b
-- charts/sub/Chart.yaml --
{apiVersion: v2, name: sub, version: 1.0.0}
-- charts/sub/templates/c.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: emptied-c}}
`)
	f.apply(m, Installed, 1)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(m.Dir, name))
		must(t, err)
		return string(text)
	}
	refused := func(what, want string) {
		t.Helper()
		f.restart()
		if err := f.refuse(m, Render); !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	for _, name := range []string{"templates/b.yaml", "charts/sub/templates/c.yaml", "values.yaml"} {
		text := read(name)
		for what, content := range map[string]string{"empty": "", "white space": " \n\r\n"} {
			write(t, m, name, content)
			refused(name+" is "+what, name+" of the chart in "+m.Dir+" is empty, but revision 1 was made with its content; restore it, or remove the file")
		}
		write(t, m, name, text)
		f.apply(m, Skipped, 1)
	}
	for _, dir := range []string{"templates", "charts/sub/templates"} {
		away := filepath.Join(t.TempDir(), "away")
		must(t, os.Rename(filepath.Join(m.Dir, dir), away))
		refused(dir+" is gone", dir+"/ of the chart in "+m.Dir+" has no files, but revision 1 was made with some")
		write(t, m, dir+"/.hidden", "")
		refused(dir+" is empty", dir+"/ of the chart in "+m.Dir+" has no files, but revision 1 was made with some")
		must(t, os.RemoveAll(filepath.Join(m.Dir, dir)))
		must(t, os.Rename(away, filepath.Join(m.Dir, dir)))
		f.apply(m, Skipped, 1)
	}
	f.kept("", "emptied-a", "emptied-b", "emptied-c")
	for _, name := range []string{"templates/b.yaml", "ci"} {
		must(t, os.RemoveAll(filepath.Join(m.Dir, name)))
	}
	f.restart()
	f.apply(m, Upgraded, 2)
	f.gone("the object of a template that was removed is still there", "emptied-b")
	must(t, os.RemoveAll(filepath.Join(m.Dir, "charts")))
	write(t, m, "Chart.yaml", "apiVersion: v2\nname: emptied\nversion: 1.0.0\n")
	f.apply(m, Upgraded, 3)
	f.gone("the object of a subchart that was removed is still there", "emptied-c")
}

// P8: a link to nothing in a chart is no file that was removed.
func TestApplyLinkToNothing(t *testing.T) {
	f := start(t)
	for _, metadata := range []string{"", "-- Chart.yaml --\n{apiVersion: v2, name: linked, version: 1.0.0}\n"} {
		m := moduleOf(t, "linked", metadata+"-- templates/a.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: linked-a}}\n")
		shared := filepath.Join(t.TempDir(), "b.yaml")
		must(t, os.WriteFile(shared, []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: linked-b}}"), 0o600))
		must(t, os.Symlink(shared, filepath.Join(m.Dir, "templates", "b.yaml")))
		f.apply(m, Installed, 1)
		must(t, os.Remove(shared))
		f.restart()
		if err := f.refuse(m, Render); !strings.Contains(err.Error(), "templates/b.yaml") {
			t.Errorf("with %q: %v", metadata, err)
		}
		f.kept("the object of a template behind a link is gone", "linked-b")
		f.uninstall("linked", true)
	}
}
