package helm

import (
	"errors"
	"reflect"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func record(version int, status string) *release.Release {
	return &release.Release{
		Name: "m", Version: version, Manifest: "text", Config: map[string]any{"a": "b"},
		Info:   &release.Info{Status: release.Status(status)},
		Labels: map[string]string{ChecksumLabel: "sum", "custom": "label"},
		Chart: &chart.Chart{
			Metadata:  &chart.Metadata{Name: "c", Version: "1.0.0"},
			Values:    map[string]any{"d": "e"},
			Templates: []*chart.File{{Name: "templates/large", Data: make([]byte, 1<<10)}},
		},
	}
}

func (f *fixture) driver() *store {
	f.Helper()
	state, err := f.client.root.records.reread(f.Context(), "m")
	must(f, err)
	op := &operation{ctx: f.Context(), home: f.client.root, release: "m", log: f.client.root.options.Log}
	return op.store(state)
}

// Labels of a secret after Create and Update, as the helm command line selects
// and shows them.
func TestStoreLabels(t *testing.T) {
	f := start(t)
	ours := f.driver()
	rel := record(1, "pending-install")
	must(t, ours.Create(secretName("m", 1), rel))
	created := f.secret(1)
	rel.Info.Status = release.StatusDeployed
	must(t, ours.Update(secretName("m", 1), rel))
	updated := f.secret(1)
	want := map[string]string{"name": "m", "owner": "helm", "status": "deployed", "version": "1", ChecksumLabel: "sum", revisionLabel: "1", "custom": "label"}
	for _, label := range []string{"createdAt", "modifiedAt"} {
		if updated.Labels[label] == "" {
			t.Errorf("label %s is missing", label)
		}
		want[label] = updated.Labels[label]
	}
	if !reflect.DeepEqual(updated.Labels, want) || created.Labels["createdAt"] != updated.Labels["createdAt"] || created.Labels["status"] != "pending-install" {
		t.Errorf("labels %v, then %v; want %v", created.Labels, updated.Labels, want)
	}
	if updated.Type != "helm.sh/release.v1" {
		t.Errorf("type = %s", updated.Type)
	}
}

func (f *fixture) secret(version int) *corev1.Secret {
	f.Helper()
	s, err := f.kube.CoreV1().Secrets(f.namespace).Get(f.Context(), secretName("m", version), metav1.GetOptions{})
	must(f, err)
	return s
}

// Of two writers one loses, at every kind of write.
func TestStoreConflicts(t *testing.T) {
	f := start(t)
	ours := f.driver()
	key := secretName("m", 1)
	must(t, ours.Create(key, record(1, "deployed")))
	if err := ours.Create(key, record(1, "deployed")); !errors.Is(err, driver.ErrReleaseExists) {
		t.Errorf("second create: %v", err)
	}
	late := f.driver()
	must(t, ours.Update(key, record(1, "failed")))
	if _, err := late.Get(key); !errors.Is(err, errTaken) {
		t.Errorf("late read: %v", err)
	}
	if err := late.Update(key, record(1, "deployed")); !errors.Is(err, errTaken) {
		t.Errorf("late update: %v", err)
	}
	if _, err := late.Delete(key); !errors.Is(err, errTaken) {
		t.Errorf("late delete: %v", err)
	}
	if got := f.secret(1).Labels["status"]; got != "failed" {
		t.Errorf("status = %s", got)
	}
	if _, err := ours.Delete(key); err != nil {
		t.Error(err)
	}
	if _, err := ours.Delete(key); !errors.Is(err, driver.ErrReleaseNotFound) {
		t.Errorf("second delete: %v", err)
	}
	if err := ours.Update(key, record(1, "deployed")); !errors.Is(err, driver.ErrReleaseNotFound) {
		t.Errorf("update after delete: %v", err)
	}
	if _, err := late.Delete(key); err != nil {
		t.Errorf("deleting what is gone: %v", err)
	}
}

// A record whose body was never read is not overwritten with nothing.
func TestStoreRefusesStubs(t *testing.T) {
	f := start(t)
	ours := f.driver()
	for _, version := range []int{1, 2} {
		must(t, ours.Create(secretName("m", version), record(version, "deployed")))
	}
	ours = f.driver()
	all, err := ours.Query(map[string]string{"name": "m", "owner": "helm"})
	if err != nil || len(all) != 2 {
		t.Fatal(all, err)
	}
	if err := ours.Update(secretName("m", 1), all[0]); err == nil {
		t.Error("a stub was written")
	}
	if _, err := ours.List(nil); err == nil {
		t.Error("list of all releases is no error")
	}
}
