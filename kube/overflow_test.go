package kube

import (
	"fmt"
	"testing"

	"addon-operator/testkit/devclustertest"
)

// P5.4: what exceeds the limit of a Watch is not kept, whether it is there already or comes later; other Watches of
// the same source do not notice.
func TestWatchThatIsTooLarge(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	watcher := world.watcher()
	limited := func(spec Spec) (Spec, chan struct{}) {
		overflowed := make(chan struct{}, 2)
		spec.Limit, spec.Failed = 2000, func(error) { overflowed <- struct{}{} }
		return spec, overflowed
	}
	wantsNothing := func(l *listener) {
		t.Helper()
		if objects, _ := l.watch.Snapshot(); len(objects) > 0 || l.watch.State().Phase != TooLarge {
			t.Errorf("%d objects are kept, the state is %+v", len(objects), l.watch.State())
		}
	}
	all := listenSynced(t, watcher, configMaps(ns))
	spec, grows := limited(configMaps(ns))
	growing := listenSynced(t, watcher, spec)
	for i := range 12 {
		world.createConfigMap(ns, fmt.Sprint("c-", i), nil)
	}
	await(t, "the overflow", grows)
	all.wantsEachOnce(Added, 12)
	wantsNothing(growing)

	// The first list of a source of its own, and a part that joins one.
	spec, first := limited(configMaps(ns))
	spec.Fields = "metadata.name!=nobody"
	alone := listen(t, watcher, spec)
	await(t, "the overflow of the first list", first)
	wantsNothing(alone)
	spec, second := limited(configMaps(ns))
	joined := listen(t, watcher, spec)
	await(t, "the overflow of a part that joins", second)
	wantsNothing(joined)

	world.deleteConfigMap(ns, "c-0")
	eventually(t, "the watch without a limit reports the deletion", func() bool { return len(all.lines()) == 13 })
	for _, l := range []*listener{alone, joined} {
		if len(l.synced) > 0 || len(l.lines()) > 0 {
			t.Errorf("told %d times that it is complete, and %q", len(l.synced), l.lines())
		}
	}
}
