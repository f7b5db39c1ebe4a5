package kube

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// H13: what is not known counts as present, also while the first list is on its way.
func TestPresenceBeforeTheFirstList(t *testing.T) {
	p := NewPresence(&Client{log: testLog(t)}, 0)
	things := schema.GroupKind{Kind: "Thing"}
	name := types.NamespacedName{Namespace: "n", Name: "a"}
	k := &presentKind{presence: p, live: map[types.NamespacedName]struct{}{}, ready: make(chan struct{})}
	p.kinds[things] = k
	if !p.MayExist(things, name) {
		t.Error("absent before anybody has looked")
	}
	k.Replace([]*metav1.PartialObjectMetadata{}, "1")
	k.Alive()
	if p.MayExist(things, name) {
		t.Error("present, but the list has it not")
	}
}
