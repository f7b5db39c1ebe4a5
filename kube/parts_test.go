package kube

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A kind that moves to another version keeps its objects: only the difference
// to the list of its new resource is reported.
func TestKindMovesToAnotherVersion(t *testing.T) {
	b := newSourceBench(t)
	l := b.watch(Spec{Filter: valueOf})
	b.list("1", object("same", "1", "x"), object("gone", "1", "x"))
	await(t, "synced", l.synced)

	all := map[scope]bool{{}: true}
	moved := kind{resource: schema.GroupVersionResource{Version: "v2", Resource: "configmaps"}}
	removed, added := l.watch.divide(all, moved)
	if len(removed) != 1 || len(added) != 1 || len(l.snapshot()) != 2 {
		t.Fatalf("%d parts removed, %d added, %d objects left; want 1, 1 and both", len(removed), len(added), len(l.snapshot()))
	}
	must(t, b.source.Update(object("same", "2", "late, from the old resource")))

	next := newSourceBench(t)
	next.source.seed = b.source.seed // a Watcher has one
	l.watch.setSource(added[scope{}], next.source)
	next.source.attach(added[scope{}])
	next.list("3", object("same", "1", "x"), object("new", "3", "x"))
	l.wants(`Deleted n/gone "x"`, `Added n/new "x"`)

	if removed, _ := l.watch.divide(nil, moved); len(removed) != 1 {
		t.Errorf("%d parts removed at the end, want 1", len(removed))
	}
	l.wants(`Deleted n/gone "x"`, `Added n/new "x"`, `Deleted n/new "x"`, `Deleted n/same "x"`)
}
