package helm

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
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
	tests := []struct {
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
	}
	for _, tt := range tests {
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
