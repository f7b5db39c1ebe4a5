package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"

	"addon-operator/testkit/devclustertest"
)

// forgetting is a store that notes what it receives.
type forgetting struct {
	mu   sync.Mutex
	told []string
}

func (s *forgetting) note(what string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, what)
	return nil
}

func (s *forgetting) Add(any) error                         { return s.note("add") }
func (s *forgetting) Update(any) error                      { return s.note("update") }
func (s *forgetting) Delete(any) error                      { return s.note("delete") }
func (s *forgetting) Resync() error                         { return nil }
func (s *forgetting) Replace(_ []any, version string) error { return s.note("replace " + version) }
func (s *forgetting) since(n int) []string                  { return slices.Clone(s.told[n:]) }

// A list that is older than what was seen counts only when a consistent list is older, too:
// then the API server has gone back, which is reported. A server that lags behind is not
// believed. P14.
func TestOldLists(t *testing.T) {
	at := "" // of a consistent list
	var broken error
	store, back := &forgetting{}, []error{}
	f := &feed{
		name: "things", key: sourceKey{resource: schema.GroupVersionResource{Version: "v1", Resource: "things"}},
		store: store, watches: unwatched{}, log: slog.New(slog.DiscardHandler), wentBack: func(err error) { back = append(back, err) },
		list: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
			if o.ResourceVersion != "" || o.Limit != 1 {
				t.Errorf("asked with %+v", o)
			}
			return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: at}}, broken
		},
		watch: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return watch.NewFake(), nil },
	}
	v := versions{store, f, t.Context()}
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "120"}}
	if err := errors.Join(v.Replace(nil, "100"), v.Add(object), v.Bookmark("90")); err != nil || f.newest() != "120" {
		t.Fatalf("newest %s, %v", f.newest(), err)
	}
	for _, c := range []struct {
		name, version, consistent string
		broken                    error
		want                      []string
		refused, expired          bool
	}{
		{name: "as new", version: "120", consistent: "120", want: []string{"replace 120"}},
		{name: "a server that lags", version: "110", consistent: "130", refused: true},
		{name: "nobody knows", version: "110", broken: errors.New("no"), refused: true},
		{name: "not comparable", version: "abc", consistent: "abc", want: []string{"replace abc"}},
		{name: "newer", version: "140", consistent: "140", want: []string{"replace 140"}},
		{name: "a restore", version: "50", consistent: "60", refused: true, expired: true},
	} {
		before, seen := len(store.told), f.newest()
		if _, err := f.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: seen}); c.expired && err != nil {
			t.Errorf("%s: the first watch after a list: %v", c.name, err)
		}
		at, broken = c.consistent, c.broken
		_, err := f.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: seen})
		if apierrors.IsResourceExpired(err) != c.expired {
			t.Errorf("%s: a watch from %s: %v", c.name, seen, err)
		}
		if err := v.Replace(nil, c.version); (err != nil) != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
		if got := store.since(before); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if len(back) != 1 || !strings.Contains(fmt.Sprint(back), "gone back to an earlier state, as after a restore of etcd: things were of version 140 and are of 50") {
		t.Errorf("told %q", back)
	}
}

// After a restore of etcd a watch finds it out. P14.
func TestRestoreOfTheStore(t *testing.T) {
	t.Parallel()
	cluster := devclustertest.StartOwn(t)
	world := newWorld(t, cluster)
	ns := world.Namespace(t)
	back := make(chan error, 100)
	world.client.wentBack = func(err error) {
		select {
		case back <- err:
		default: // one is enough
		}
	}
	world.createConfigMap(ns, "values", map[string]string{"global": "x: early"})
	states := make(chan ConfigMap, 100)
	world.client.ConfigMap(ns, "values").Watch(t.Context(), func(c ConfigMap) { states <- c })
	await(t, "the first state", states)
	restore := cluster.Backup(t)
	for i := range 100 { // a control plane writes, too: until it has reached these versions again, the watches are back
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("busy-", i)}}
		must(t, second(world.admin.CoreV1().Secrets(ns).Create(t.Context(), secret, metav1.CreateOptions{})))
	}
	world.updateConfigMap(ns, "values", func(c *corev1.ConfigMap) { c.Data["global"] = "x: late" })
	await(t, "the late state", states)
	restore()
	if err := await(t, "the news of the restore", back); !strings.Contains(err.Error(), "gone back to an earlier state") {
		t.Error(err)
	}
}
