package kube

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/testkit/devclustertest"
)

// A version from which a watch continues is compared with that of a consistent list: if that is older, the API server
// has gone back, which is reported. The first watch after a list needs no other one. P14.
func TestWatchesFromTheFuture(t *testing.T) {
	var back []error
	api := &watchAPI{}
	s := newSourceBench(t).watcher.newSource(sourceKey{resource: schema.GroupVersionResource{Resource: "things"}}, api)
	s.wentBack = func(err error) { back = append(back, err) }
	for _, c := range []struct {
		name, from, consistent string
		broken                 error
		asks                   int
		fails, back            bool
	}{
		{name: "the first", from: ""},
		{name: "from the cache", from: "0"},
		{name: "as new", from: "120", consistent: "120", asks: 1},
		{name: "newer", from: "120", consistent: "130", asks: 1},
		{name: "nobody knows", from: "130", broken: errors.New("no"), asks: 1, fails: true},
		{name: "not comparable", from: "abc", consistent: "120", asks: 1},
		{name: "a restore", from: "130", consistent: "60", asks: 1, fails: true, back: true},
		{name: "a version that is refused after it", from: "", consistent: "60", asks: 1, fails: true, back: true},
	} {
		api.at, api.broken, api.lists, back = c.consistent, c.broken, 0, nil
		_, err := s.watch(t.Context(), metav1.ListOptions{ResourceVersion: c.from})
		if (err != nil) != c.fails || (len(back) == 1) != c.back || api.lists != c.asks {
			t.Errorf("%s: %v, told %q, %d lists", c.name, err, back, api.lists)
		}
	}
	if !strings.Contains(fmt.Sprint(back), "gone back to an earlier state, as after a restore of etcd: things were of version 130 and are of 60") {
		t.Errorf("told %q", back)
	}
	api.at, api.lists, back = "140", 0, nil
	if _, err := s.list(t.Context(), metav1.ListOptions{ResourceVersion: "130"}); err != nil || len(back) > 0 {
		t.Errorf("a list: %v, told %q", err, back)
	}
	if _, err := s.watch(t.Context(), metav1.ListOptions{ResourceVersion: "140"}); err != nil || api.lists != 1 {
		t.Errorf("the watch after it: %v, after %d lists", err, api.lists)
	}
	api.at = "60"
	if _, err := s.list(t.Context(), metav1.ListOptions{ResourceVersion: "140"}); err == nil || len(back) != 1 {
		t.Errorf("an older list: %v, told %q", err, back)
	}
}

// After a restore of etcd a watch finds it out. P14.
func TestRestoreOfTheStore(t *testing.T) {
	devclustertest.OnlyInFull(t)
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
