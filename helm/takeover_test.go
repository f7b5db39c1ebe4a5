package helm

import (
	"context"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const takenChart = `
-- templates/all.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: shared}
data: {same: a}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: only-old}
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
const takingTemplate = `apiVersion: v1
kind: ConfigMap
metadata: {name: shared}
data: {same: a, added: c}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`

// claimedBy is what a purge learns of a module: its objects.
func (f *fixture) claimedBy(m Module) Claimed {
	return func(ctx context.Context, objects []Object) (map[Object]string, error) {
		has, err := f.client.Objects(ctx, m)
		by := map[Object]string{}
		for _, o := range has {
			if slices.Contains(objects, o) {
				by[o] = m.Name
			}
		}
		return by, err
	}
}

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

	if existed, err := f.client.Purge(t.Context(), "old", Purging{Claimed: f.claimedBy(renamed)}); err == nil || existed || !strings.Contains(err.Error(), "module renamed renders ConfigMap "+f.namespace+"/shared") {
		t.Errorf("the purge before the take-over: %v, %v", existed, err)
	}
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
	if existed, err := f.client.Purge(t.Context(), "old", Purging{Claimed: f.claimedBy(renamed)}); err != nil || !existed {
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
