package helm

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRevisionOf(t *testing.T) {
	const name = "sh.helm.release.v1.m.v2"
	tests := []struct {
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
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			release, r, err := revisionOf(&metav1.ObjectMeta{Name: tt.secret, Labels: tt.labels})
			if (err == nil) != tt.ok {
				t.Fatalf("error = %v", err)
			}
			if tt.ok && (release != "m" || r.Version != 2 || r.Checksum != tt.checksum) {
				t.Errorf("revision = %s %+v", release, r)
			}
		})
	}
}

func TestSinceDeployed(t *testing.T) {
	tests := []struct {
		name  string
		state State
		want  []int
	}{
		{"nothing", history(), nil},
		{"deployed", history("superseded", "deployed"), nil},
		{"failed after deployed", history("superseded", "deployed", "failed"), []int{3, 2}},
		{"failed twice", history("deployed", "failed", "failed"), []int{3, 2, 1}},
		{"never deployed", history("failed", "failed"), []int{2, 1}},
		{"failed after superseded", history("superseded", "superseded", "failed"), []int{3, 2}},
		{"interrupted uninstall", history("superseded", "uninstalling"), []int{2, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []int
			for _, r := range tt.state.sinceDeployed() {
				got = append(got, r.Version)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("revisions = %v, want %v", got, tt.want)
			}
		})
	}
}

// H7: the oldest go, so that one more is within the limit; the deployed one stays.
func TestSurplus(t *testing.T) {
	tests := []struct {
		name  string
		limit int
		state State
		want  []int
	}{
		{"nothing", 3, history(), nil},
		{"room for one more", 3, history("superseded", "deployed"), nil},
		{"full", 3, history("superseded", "superseded", "deployed"), []int{1}},
		{"the limit was lowered", 2, history("superseded", "superseded", "superseded", "deployed"), []int{1, 2, 3}},
		{"the deployed one is the oldest", 3, history("deployed", "failed", "failed"), []int{2}},
		{"none is deployed", 2, history("failed", "failed"), []int{1}},
		{"only one", 1, history("deployed"), nil},
		{"no limit", 0, history("superseded", "superseded", "deployed"), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []int
			for _, r := range tt.state.surplus(tt.limit) {
				got = append(got, r.Version)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("revisions = %v, want %v", got, tt.want)
			}
		})
	}
}

// The remembered state is given up whenever somebody else touched a release.
func TestRecords(t *testing.T) {
	f := start(t)
	r := &records{client: f.client.root.metadata, namespace: f.namespace}
	secrets := f.kube.CoreV1().Secrets(f.namespace)
	put := func(version int, status string) {
		t.Helper()
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secretName("m", version), Labels: map[string]string{
			"owner": "helm", "name": "m", "status": status, "version": fmt.Sprint(version),
		}}}
		must(t, second(secrets.Create(t.Context(), s, metav1.CreateOptions{})))
	}
	read := func() []string {
		t.Helper()
		state, err := r.read(t.Context(), "m")
		must(t, err)
		got := []string{}
		for _, rev := range state.Revisions {
			got = append(got, fmt.Sprint(rev.Version, " ", rev.Status))
		}
		return got
	}
	want := func(words ...string) {
		t.Helper()
		if got := read(); !slices.Equal(got, words) {
			t.Errorf("state of m = %q, want %q", got, words)
		}
	}
	// Where no release is known, the memory of the API server is asked, which may be late.
	wantSoon := func(word string) {
		t.Helper()
		f.eventually(func() bool { return slices.Equal(read(), []string{word}) })
	}
	want()
	put(9, "superseded")
	wantSoon("9 superseded")
	put(10, "deployed") // sorted by number, not by text
	want("9 superseded", "10 deployed")
	want("9 superseded", "10 deployed")
	s, err := secrets.Get(t.Context(), secretName("m", 10), metav1.GetOptions{})
	must(t, err)
	s.Labels["status"] = "failed"
	must(t, second(secrets.Update(t.Context(), s, metav1.UpdateOptions{})))
	want("9 superseded", "10 failed")
	must(t, secrets.Delete(t.Context(), secretName("m", 10), metav1.DeleteOptions{}))
	want("9 superseded")
	r.doubt("m")
	want("9 superseded")
	must(t, secrets.Delete(t.Context(), secretName("m", 9), metav1.DeleteOptions{}))
	want()
	put(1, "deployed")
	wantSoon("1 deployed")
}
