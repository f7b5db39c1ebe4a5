package kube

import (
	"fmt"
	"slices"
	"testing"

	"addon-operator/testkit/devclustertest"
)

// P5.4: what exceeds the limit of a Watch is not kept, whether it is there already or comes later; other Watches of the
// same source do not notice.
func TestWatchThatIsTooLarge(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	watcher := world.watcher()
	limited := func(spec Spec) (Spec, chan struct{}) {
		overflowed := make(chan struct{}, 2)
		spec.Limit, spec.Overflowed = 2000, func() { overflowed <- struct{}{} }
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

// P5.4: of Watches that keep too much together the largest give up, whoever came first; what several share counts once.
func TestBudgetOfWatches(t *testing.T) {
	const keep, most = 100, 200
	type kept struct {
		own, objects int
		selection    string
	}
	for what, c := range map[string]struct {
		kept map[string]kept
		want []string // that give up
	}{
		"they fit":              {map[string]kept{"a": {30, 30, "x"}, "b": {0, 40, "y"}}, nil},
		"the largest":           {map[string]kept{"a": {30, 0, "x"}, "b": {0, 40, "y"}, "c": {50, 0, "z"}}, []string{"c"}},
		"the two largest":       {map[string]kept{"a": {30, 0, "x"}, "b": {60, 0, "y"}, "c": {0, 90, "z"}, "d": {20, 0, "w"}, "e": {45, 0, "v"}}, []string{"b", "c"}},
		"equal ones, by name":   {map[string]kept{"a": {40, 0, "x"}, "b": {40, 0, "y"}, "c": {40, 0, "z"}}, []string{"c"}},
		"shared":                {map[string]kept{"a": {5, 80, "x"}, "b": {5, 80, "x"}, "c": {5, 80, "x"}}, nil},
		"shared, and one other": {map[string]kept{"a": {0, 60, "x"}, "b": {0, 60, "x"}, "c": {70, 0, "y"}}, []string{"c"}},
		"one alone":             {map[string]kept{"a": {101, 0, "x"}}, []string{"a"}},
	} {
		t.Run(what, func(t *testing.T) {
			var names []string
			for name := range c.kept {
				names = append(names, name)
			}
			slices.Sort(names)
			for range 2 * len(names) { // in other orders
				names = append(names[1:], names[0])
				if len(names) > 1 {
					names[0], names[1] = names[1], names[0]
				}
				budget := NewBudget(keep, most)
				var gaveUp []string
				for _, name := range names {
					k := c.kept[name]
					for _, w := range budget.set(&Watch{spec: Spec{Name: name}, selectionText: k.selection}, k.own, k.objects) {
						gaveUp = append(gaveUp, w.spec.Name)
					}
				}
				if slices.Sort(gaveUp); !slices.Equal(gaveUp, c.want) {
					t.Errorf("in the order %v these gave up: %v, want %v", names, gaveUp, c.want)
				}
			}
		})
	}
}

// P5.4: lists on their way count, too, and the largest is cut.
func TestBudgetOfLists(t *testing.T) {
	budget := NewBudget(100, 200)
	budget.set(&Watch{selectionText: "x"}, 90, 0)
	first, second := &batch{}, &batch{}
	if budget.list(first, 50) || budget.list(second, 60) {
		t.Error("a list is cut that fits")
	}
	if budget.list(first, 55) { // 205, and second is larger
		t.Error("the smaller list is cut")
	}
	if !budget.list(second, 61) {
		t.Error("the larger list is not cut")
	}
	budget.listed(second)
	if budget.list(first, 100) {
		t.Error("the other list is cut after the larger one has ended")
	}
	if !budget.list(first, 111) {
		t.Error("a list is not cut that does not fit")
	}
}
