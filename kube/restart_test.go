package kube

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"addon-operator/testkit/devclustertest"
)

// The API server is killed and comes back: the loss is visible, then events
// flow again, and each object is told exactly once.
func TestRestartOfTheAPIServer(t *testing.T) {
	world := newWorld(t, devclustertest.StartOwn(t))
	ns := world.Namespace(t)
	told := &tally{}
	world.client.watches = told
	watcher := world.watcher()
	l := listenSynced(t, watcher, configMaps(ns))
	spec := configMaps() // another namespace scope, so another reflector
	spec.KeepObjects = true
	all := listenSynced(t, watcher, spec)

	states := make(chan ConfigMap, 100)
	world.client.WatchConfigMap(t.Context(), ns, "values", func(c ConfigMap) { states <- c })
	if c := await(t, "the first state of the ConfigMap", states); c.Exists() {
		t.Errorf("a ConfigMap out of nothing: %+v", c)
	}

	create := func(from, to int) {
		for i := from; i < to; i++ {
			world.createConfigMap(ns, fmt.Sprintf("c-%04d", i), nil)
		}
	}
	create(0, 300)
	world.Kill(t)
	for _, l := range []*listener{l, all} {
		eventually(t, "the loss is visible", func() bool { return l.watch.State().Phase == Stale })
	}
	for _, want := range []string{"interrupted v1/configmaps in " + ns, "failed connection"} { // I2
		eventually(t, want, func() bool { return told.has(want) })
	}
	if _, err := world.client.ReadConfigMap(t.Context(), ns, "values"); err == nil {
		t.Error("read from an API server that is away")
	}
	world.Restart(t)
	create(300, 600)
	world.createConfigMap(ns, "values", map[string]string{"global": "x: 1"})
	if c := await(t, "the ConfigMap", states); c.Data["global"] != "x: 1" {
		t.Errorf("the ConfigMap is told as %+v", c)
	}
	world.updateConfigMap(ns, "values", func(c *corev1.ConfigMap) { c.Labels["test"] = "other" })
	for _, l := range []*listener{l, all} {
		eventually(t, "all is well", func() bool { return l.watch.State().Phase == Complete })
		l.wantsEachOnce(Added, 601)
	}

	// Again, with nothing changed: nothing is told.
	world.Restart(t)
	world.deleteConfigMap(ns, "values")
	if c := await(t, "the end of the ConfigMap", states); c.Exists() {
		t.Errorf("after its deletion the ConfigMap is told as %+v", c)
	}
	l.wantsLast("Deleted "+ns+`/values {"global":"x: 1"}`, 602)
	all.wantsLast("Deleted "+ns+`/values {"global":"x: 1"}`, 602)
}

// wantsLast waits for the n-th change and checks it.
func (l *listener) wantsLast(line string, n int) {
	l.t.Helper()
	eventually(l.t, fmt.Sprintf("change %d is told", n), func() bool { return len(l.lines()) >= n })
	lines := l.lines()
	if len(lines) != n || lines[n-1] != line {
		l.t.Errorf("%d changes, the last is %s; want %d and %s", len(lines), lines[len(lines)-1], n, line)
	}
}
