package helm

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

func TestRevisionOf(t *testing.T) {
	const name = "sh.helm.release.v1.m.v2"
	for _, tt := range []struct {
		name, secret string
		labels       map[string]string
		checksum     string
		ok           bool
	}{
		{"ours", name, map[string]string{"name": "m", "version": "2", ChecksumLabel: "c", revisionLabel: "2"}, "c", true},
		{"of an operator that writes no revision", name, map[string]string{"name": "m", "version": "2", ChecksumLabel: "c"}, "c", true},
		{"made by hand, with a copied checksum", name, map[string]string{"name": "m", "version": "2", ChecksumLabel: "c", revisionLabel: "1"}, "", true},
		{"made by hand", name, map[string]string{"name": "m", "version": "2"}, "", true},
		{"no version", name, map[string]string{"name": "m"}, "", false},
		{"no name", name, map[string]string{"version": "2"}, "", false},
		{"another secret", "my-secret", map[string]string{"name": "m", "version": "2"}, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			release, r, ok := revisionOf(&metav1.ObjectMeta{Name: tt.secret, Labels: tt.labels})
			if ok != tt.ok {
				t.Fatalf("is a record: %v", ok)
			}
			if tt.ok && (release != "m" || r.Version != 2 || r.Checksum != tt.checksum) {
				t.Errorf("revision = %s %+v", release, r)
			}
		})
	}
}

func TestEffectiveRevisions(t *testing.T) {
	for _, tt := range []struct {
		name  string
		state State
		want  []int
	}{
		{"nothing", history(), nil},
		{"deployed", history("superseded", "deployed"), []int{2}},
		{"failed after deployed", history("superseded", "deployed", "failed"), []int{3, 2}},
		{"failed twice", history("deployed", "failed", "failed"), []int{3, 2, 1}},
		{"never deployed", history("failed", "failed"), []int{2, 1}},
		{"failed after superseded", history("superseded", "superseded", "failed"), []int{3, 2}},
		{"interrupted uninstall", history("superseded", "uninstalling"), []int{2, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []int
			for _, r := range tt.state.effective() {
				got = append(got, r.Version)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("revisions = %v, want %v", got, tt.want)
			}
		})
	}
}

// A list serves one read of each release; each other read sees what somebody else has done.
func TestRecords(t *testing.T) {
	f := start(t)
	r := newRecords(f.client.root.metadata, "", f.namespace)
	secrets := f.kube.CoreV1().Secrets(f.namespace)
	put := func(version int, status string) {
		t.Helper()
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName("m", version), Labels: map[string]string{
			"owner": "helm", "name": "m", "status": status, "version": fmt.Sprint(version),
		}}}
		must(t, second(secrets.Create(t.Context(), s, metav1.CreateOptions{})))
	}
	want := func(words ...string) {
		t.Helper()
		state, err := r.read(t.Context(), "m")
		must(t, err)
		got := []string{}
		for _, rev := range state.Revisions {
			got = append(got, fmt.Sprint(rev.Version, " ", rev.Status))
		}
		if !slices.Equal(got, words) {
			t.Errorf("state of m = %q, want %q", got, words)
		}
	}
	list := func() {
		t.Helper()
		must(t, second(r.readAll(t.Context())))
	}
	want()
	put(9, "superseded")
	want("9 superseded")
	list()
	put(10, "deployed") // sorted by number, not by text
	want("9 superseded")
	want("9 superseded", "10 deployed")
	list()
	must(t, secrets.Delete(t.Context(), secretName("m", 10), metav1.DeleteOptions{}))
	r.doubt("m")
	want("9 superseded")
	list()
	r.wrote("m", nil) // deleted by us
	want()
	want("9 superseded")
}

// What is written during a list is not taken from it.
func TestRecordsWrittenDuringAList(t *testing.T) {
	f := start(t)
	r := newRecords(nil, "", f.namespace)
	var wrote atomic.Bool
	config := rest.CopyConfig(f.config)
	config.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			resp, err := next.RoundTrip(req)
			if wrote.CompareAndSwap(false, true) {
				r.wrote("m", []Revision{{Version: 1}})
			}
			return resp, err
		})
	}
	client, err := metadata.NewForConfig(config)
	must(t, err)
	r.client = client
	if all, err := r.readAll(t.Context()); err != nil || len(all.states) > 0 || len(r.remembered("m").Revisions) != 1 {
		t.Errorf("%v, %v", all, err)
	}
	if state, err := r.read(t.Context(), "m"); err != nil || len(state.Revisions) > 0 {
		t.Errorf("it was not read again: %+v, %v", state, err)
	}
}

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

// history makes a state from "status" or "status=checksum" words, oldest first.
func history(words ...string) State {
	s := State{Release: "m"}
	for i, w := range words {
		status, checksum, _ := strings.Cut(w, "=")
		s.Revisions = append(s.Revisions, Revision{Version: i + 1, Status: release.Status(status), Checksum: checksum})
	}
	return s
}

// H5, H8, H9: the table is the specification of Decide.
func TestDecide(t *testing.T) {
	gone := []Object{{Name: "a"}, {Name: "b"}}
	gone[0].GVK.Kind, gone[1].GVK.Kind = "ConfigMap", "Secret"
	for _, tt := range []struct {
		name   string
		state  State
		absent []Object
		step   Step
		reason string
	}{
		{"no release (H5.1)", history(), nil, StepInstall, "no release"},
		{"no release, objects absent", history(), gone, StepInstall, "no release"},
		{"same checksum, all there (H5.5)", history("deployed=new"), nil, StepSkip, "unchanged"},
		{"same checksum after other revisions", history("superseded=old", "failed=new", "deployed=new"), nil, StepSkip, "unchanged"},
		{"other checksum (H5.3)", history("deployed=old"), nil, StepUpgrade, "changed"},
		{"other checksum and absent", history("deployed=old"), gone, StepUpgrade, "changed"},
		{"no checksum: made by hand", history("deployed=new", "deployed"), nil, StepUpgrade, "no checksum"},
		{"one object absent (H5.4)", history("deployed=new"), gone[:1], StepUpgrade, "ConfigMap a is absent"},
		{"two objects absent (H5.4)", history("deployed=new"), gone, StepUpgrade, "1 more"},
		{"failed with the same checksum (H5.2)", history("deployed=new", "failed=new"), nil, StepUpgrade, "revision 2 failed"},
		{"all failed", history("failed=new", "failed=new"), nil, StepUpgrade, "failed"},
		{"only revision failed (H9)", history("failed=new"), nil, StepReinstall, "only revision (1) failed"},
		{"superseded without successor", history("superseded=new"), nil, StepUpgrade, "successor is gone"},
		{"kept history of an uninstalled release", history("superseded=new", "uninstalled=new"), nil, StepInstall, "uninstalled"},
		{"killed in first install (H8)", history("pending-install=new"), nil, StepUnlock, "pending-install"},
		{"killed in upgrade (H8)", history("deployed=new", "pending-upgrade=new"), nil, StepUnlock, "pending-upgrade"},
		{"killed in rollback (H8)", history("superseded=old", "deployed=new", "pending-rollback=old"), nil, StepUnlock, "pending-rollback"},
		{"killed in uninstall", history("uninstalling=new"), nil, StepUnlock, "uninstalling"},
		{"unknown status", history("unknown=new"), nil, StepUnlock, "unknown"},
		{"no status at all", history("=new"), nil, StepUnlock, `""`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			step, reason := Decide(tt.state, "new", tt.absent)
			if step != tt.step {
				t.Errorf("step = %s (%s), want %s", step, reason, tt.step)
			}
			if !strings.Contains(reason, tt.reason) {
				t.Errorf("reason = %q, want it to contain %q", reason, tt.reason)
			}
		})
	}
}
