package helm

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/testkit/devclustertest"
)

const takenChart = `
-- templates/all.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: shared}, data: {same: a}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: only-old}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: old-data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`

// takingTemplate renders a part of takenChart.
const takingTemplate = `{apiVersion: v1, kind: ConfigMap, metadata: {name: shared}, data: {same: a, added: c}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`

// wantOwner expects that a claim is the same, is not being deleted, and belongs to a release.
func (f *fixture) wantOwner(claim, uid, release string) {
	f.Helper()
	live, err := f.kube.CoreV1().PersistentVolumeClaims(f.namespace).Get(f.Context(), claim, metav1.GetOptions{})
	must(f, err)
	if string(live.UID) != uid || live.DeletionTimestamp != nil || live.Annotations[ownerName] != release {
		f.Errorf("claim %s is %s, deleted at %v, of release %s; want %s of %s", claim, live.UID, live.DeletionTimestamp, live.Annotations[ownerName], uid, release)
	}
}

// A module is renamed, and later merged into another one: the objects that it still has are those that it had, and
// nothing of them is deleted. What only the former release has is purged, but for data. H7, P1, P2.
func TestTakeOver(t *testing.T) {
	f := start(t)
	old := moduleOf(t, "old", takenChart)
	f.apply(old, Installed, 1)
	data, oldData := f.claim("data"), f.claim("old-data")
	renamed := moduleOf(t, "renamed", "\n-- templates/all.yaml --\n"+takingTemplate)
	f.refuse(renamed, Foreign)
	renamed.Orphaned = func(string) (bool, error) { return false, nil }
	f.refuse(renamed, Foreign)

	f.wantRevisions("old", "1 deployed")
	f.wantOwner("data", data, "old")

	orphans := []string{"old", "theirs"}
	orphaned := func(release string) (bool, error) { return slices.Contains(orphans, release), nil }
	renamed.Orphaned = orphaned
	if p, err := f.client.Plan(t.Context(), renamed); err != nil || p.Action != Installed {
		t.Errorf("the plan of a take-over: %+v, %v", p, err)
	}
	f.wantOwner("data", data, "old")
	f.apply(renamed, Installed, 1)
	f.wantOwner("data", data, "renamed")
	if got := f.configMap("shared"); got["added"] != "c" {
		t.Errorf("the object that was taken over has %v", got)
	}
	if existed, err := f.client.Purge(t.Context(), "old", Purging{}); err != nil || !existed {
		t.Errorf("the purge after the take-over: %v, %v", existed, err)
	}
	f.wantRevisions("old")
	if f.configMap("shared") == nil || f.configMap("only-old") != nil {
		t.Error("the purge deleted what was taken over, or left what was not")
	}
	f.wantOwner("data", data, "renamed")
	f.wantOwner("old-data", oldData, "old")
	if log := f.log.String(); !strings.Contains(log, "objects with data stay") || !strings.Contains(log, f.namespace+"/old-data") || strings.Count(log, "objects are taken over") != 1 {
		t.Errorf("the log is\n%s", log)
	}
	f.apply(renamed, Skipped, 1)

	merged := moduleOf(t, "merged", "\n-- templates/own.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: own}\n")
	merged.Orphaned = orphaned
	f.apply(merged, Installed, 1)
	write(t, merged, "templates/all.yaml", takingTemplate)
	orphans = append(orphans, "renamed")
	f.apply(merged, Upgraded, 2)
	f.wantOwner("data", data, "merged")
	f.purge("renamed", true)
	f.wantOwner("data", data, "merged")

	theirs := module(t, "simple")
	f.helmInstall("theirs", theirs)
	mine := moduleOf(t, "mine", "\n-- templates/all.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: theirs-a}\n")
	mine.Orphaned = orphaned
	f.refuse(mine, Foreign)
}

// versions are the resourceVersions and UIDs of the ConfigMaps of the namespace that Helm made.
func (f *fixture) versions() map[string]string {
	f.Helper()
	list, err := f.kube.CoreV1().ConfigMaps(f.namespace).List(f.Context(), metav1.ListOptions{LabelSelector: managedByHelm})
	must(f, err)
	all := map[string]string{}
	for _, cm := range list.Items {
		all[cm.Name] = string(cm.UID) + " " + cm.ResourceVersion
	}
	return all
}

// adopted expects that a release of Helm is taken over: planned so, without a revision, and without a
// write to an object; and that the next start finds nothing to do.
func (f *fixture) adopted(m Module) {
	f.Helper()
	before, revisions := f.versions(), f.revisions(m.Name)
	if len(before) == 0 {
		f.Fatal("the release has no objects")
	}
	f.caughtUp()
	plan, err := f.client.Plan(f.Context(), m)
	if err != nil || plan.Action != Adopted || len(plan.Changes) != 0 || len(plan.Hooks) != 0 {
		f.Fatalf("plan: %+v, %v; want adopted, without changes", plan, err)
	}
	if ours, err := f.client.Ours(f.Context(), []string{m.Name}); err != nil || len(ours) != 0 {
		f.Fatalf("the plan has written: ours are %q, %v", ours, err)
	}
	if got := f.apply(m, Adopted, len(revisions)); !strings.Contains(got.Reason, "adopted unchanged") {
		f.Errorf("reason: %s", got.Reason)
	}
	f.apply(m, Skipped, len(revisions))
	f.restart()
	f.apply(m, Skipped, len(revisions))
	f.wantRevisions(m.Name, revisions...)
	if after := f.versions(); !maps.Equal(before, after) {
		f.Errorf("objects were written: before %v, after %v", before, after)
	}
	if ours, err := f.client.Ours(f.Context(), []string{m.Name}); err != nil || !slices.Equal(ours, []string{m.Name}) {
		f.Errorf("ours are %q, %v; want the release", ours, err)
	}
	if _, err := action.NewStatus(f.stock()).Run(m.Name); err != nil {
		f.Errorf("helm status: %v", err)
	}
}

const plainChart = `-- Chart.yaml --
{apiVersion: v2, name: plain, version: 1.0.0}
-- templates/cm.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ .Release.Name }}}
data: {text: {{ .Values.plain.text | quote }}}
`

// A release that Helm made is taken over when the module renders the same, by either driver. H6.
func TestAdoptsWhatHelmInstalled(t *testing.T) {
	for _, recordsIn := range []Driver{SecretDriver, ConfigMapDriver} {
		t.Run(string(recordsIn), func(t *testing.T) {
			f := start(t)
			f.recordsIn, f.labels = recordsIn, map[string]string{"heritage": "addon-operator"}
			f.restart()
			m := moduleOf(t, "plain", plainChart).with("text", "one")
			f.helmInstall(m.Name, m)
			f.adopted(m)
			if drift, known, err := f.client.Drift(t.Context(), m); err != nil || !known || len(drift) != 0 {
				t.Errorf("drift: %v, known %v, %v; the labels that come with the next revision are none", drift, known, err)
			}
			f.apply(m.with("text", "two"), Upgraded, 2)
			if got := f.configMap("plain")["text"]; got != "two" {
				t.Errorf("text = %q", got)
			}
		})
	}
}

// What a chart makes of the revision, or by chance, is no reason for a revision; the next edit is one.
func TestAdoptsWhatIsRenderedByRevisionAndChance(t *testing.T) {
	f := startOn(t, devclustertest.Borrow(t)) // kinds of other tests are an input of the chart
	m := moduleOf(t, "chance", strings.ReplaceAll(plainChart, "plain", "chance")+`-- templates/more.yaml --
apiVersion: v1
kind: ConfigMap
metadata:
  name: more
  annotations: {checksum: {{ randAlphaNum 20 | quote }}}
data:
  revision: "{{ .Release.Revision }}"
  {{- if .Release.IsInstall }}
  first: "yes"
  {{- end }}
`).with("text", "one")
	f.helmInstall(m.Name, m)
	f.adopted(m)
	f.apply(m.with("text", "two"), Upgraded, 2)
}

// A release that differs is upgraded.
func TestDoesNotAdoptWhatDiffers(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "plain", plainChart).with("text", "one")
	f.helmInstall(m.Name, m)
	f.caughtUp()
	edited := m.with("text", "two")
	plan, err := f.client.Plan(t.Context(), edited)
	if err != nil || plan.Action != Upgraded || len(plan.Changes) != 1 {
		t.Fatalf("plan: %+v, %v", plan, err)
	}
	f.apply(edited, Upgraded, 2)

	// What a person makes of a release that is ours is undone, unless it comes to the same.
	upgrade := action.NewUpgrade(f.stock())
	upgrade.Namespace = f.namespace
	loaded, err := loader.LoadDir(m.Dir)
	must(t, err)
	must(t, second(upgrade.Run("plain", loaded, edited.Values)))
	f.apply(edited, Adopted, 3)
	must(t, second(upgrade.Run("plain", loaded, m.Values)))
	f.apply(edited, Upgraded, 5)
}

// An object that is gone is a reason to act, also in a release that would be taken over.
func TestAdoptsNothingThatIsIncomplete(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "plain", plainChart).with("text", "one")
	f.helmInstall(m.Name, m)
	f.deleteConfigMap("plain")
	f.apply(m, Upgraded, 2)
	if got := f.configMap("plain")["text"]; got != "one" {
		t.Errorf("text = %q", got)
	}
}

func TestDifferenceOfRenders(t *testing.T) {
	one, other := []string{"fixed: x", "chance: abc"}, []string{"fixed: x", "chance: def"}
	for text, want := range map[string]bool{
		"fixed: x\nchance: xyz":          true,
		"fixed: y\nchance: xyz":          false,
		"fixed: x":                       false,
		"fixed: x\nchance: abc\nmore: b": false,
		"":                               false,
	} {
		if got := sameBut(strings.Split(text, "\n"), one, other); got != want {
			t.Errorf("%q is the same: %v", text, got)
		}
	}
	if sameBut([]string{"fixed: x", "chance: xyz"}, one, one) || !sameBut([]string{"a"}, []string{"a"}, nil) {
		t.Error("what two renders have in common may differ")
	}
}
