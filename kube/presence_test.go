package kube

import (
	"context"
	"io"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// reportGone takes all objects for ours, and sends the names of those that are gone.
func reportGone(gone chan<- string) PresenceReport {
	return PresenceReport{
		Ours:    func(*metav1.PartialObjectMetadata) bool { return true },
		Gone:    func(_ schema.GroupKind, name types.NamespacedName) { gone <- name.Name },
		Changed: func(*meta.RESTMapping, *metav1.PartialObjectMetadata) {},
	}
}

// watched is a kind of a Presence whose Watch the test plays.
func watched(t *testing.T, p *Presence, of schema.GroupKind, b *sourceBench) *presentKind {
	k := &presentKind{presence: p, ready: make(chan struct{}), ended: t.Context().Done()}
	k.watch = b.watch(Spec{Filter: nothing}).watch
	p.kinds[of] = k
	return k
}

// H13: what is not known counts as present, also while the first list is on its way.
func TestPresenceBeforeTheFirstList(t *testing.T) {
	p, b := NewPresence(&Client{log: testLog(t)}, 0), newSourceBench(t)
	things := schema.GroupKind{Kind: "Thing"}
	name := types.NamespacedName{Namespace: "n", Name: "a"}
	watched(t, p, things, b)
	if _, sure := p.Known(things, name); sure {
		t.Error("absent before anybody has looked")
	}
	b.list("1")
	if there, sure := p.Known(things, name); there || !sure {
		t.Error("present, but the list has it not")
	}
	b.source.note(t.Context(), "watch", io.EOF)
	if _, sure := p.Known(things, name); sure {
		t.Error("absent, but nobody knows")
	}
}

// F18: a stop ends the watches, and waits for what Helm writes: that must not wait for a list that never comes.
func TestPresenceWhoseWatchesHaveEnded(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	p := NewPresence(&Client{log: testLog(t)}, 0)
	p.Start(ctx, "", reportGone(nil))
	things := schema.GroupVersionKind{Version: "v1", Kind: "Thing"}
	m := &meta.RESTMapping{Resource: things.GroupVersion().WithResource("things"), GroupVersionKind: things}
	k := watched(t, p, things.GroupKind(), newSourceBench(t))
	k.mapping, k.ended = m, ctx.Done()
	stop()
	name := types.NamespacedName{Namespace: "n", Name: "a"}
	if _, sure := p.Known(things.GroupKind(), name); sure || p.Has(t.Context(), m, name) {
		t.Error("what is not known must be read")
	}
}

// H13, M3: a definition may lose the version with which its kind was first asked for; the
// objects are watched with the next one.
func TestPresenceAfterAVersionIsGone(t *testing.T) {
	c := newCRDTest(t)
	gone := make(chan string, 10)
	p := NewPresence(c.client, 0)
	p.Start(t.Context(), "", reportGone(gone))
	as := func(version string) *meta.RESTMapping {
		gv := schema.GroupVersion{Group: c.group, Version: version}
		return &meta.RESTMapping{Resource: gv.WithResource("widgets"), GroupVersionKind: gv.WithKind("Widget")}
	}
	name := types.NamespacedName{Namespace: "default", Name: "a"}

	c.file("widgets.yaml", c.text("", "v1alpha1", "v1"))
	c.ensure(c.name())
	widget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": c.group + "/v1", "kind": "Widget", "metadata": map[string]any{"name": "a"}}}
	widgets := c.client.dynamic.Resource(as("v1").Resource).Namespace("default")
	must(t, second(widgets.Create(t.Context(), widget, metav1.CreateOptions{})))
	eventually(t, "the old version shows the object", func() bool { return p.Has(t.Context(), as("v1alpha1"), name) })

	c.file("widgets.yaml", c.text("", "v1"))
	c.ensure(c.name())
	if got := await(t, "the old version to be gone", gone); got != "a" {
		t.Errorf("%s is gone", got)
	}
	eventually(t, "the new version shows the object", func() bool { return p.Has(t.Context(), as("v1"), name) })
	must(t, widgets.Delete(t.Context(), "a", metav1.DeleteOptions{}))
	if got := await(t, "word of the deletion", gone); got != "a" {
		t.Errorf("%s is gone", got)
	}
}

// H13: the watch of a kind that is new begins late. What is deleted until then is gone when the first list has it not;
// what is there is not.
func TestPresenceOfWhatNoWatchHasSeen(t *testing.T) {
	c := newCRDTest(t)
	gone := make(chan string, 10)
	p := NewPresence(c.client, 0)
	p.Start(t.Context(), "", reportGone(gone))
	c.file("widgets.yaml", c.text("", "v1"))
	c.ensure(c.name())
	there := &unstructured.Unstructured{Object: map[string]any{"apiVersion": c.group + "/v1", "kind": "Widget", "metadata": map[string]any{"name": "there"}}}
	gv := schema.GroupVersion{Group: c.group, Version: "v1"}
	widgets := &meta.RESTMapping{Resource: gv.WithResource("widgets"), GroupVersionKind: gv.WithKind("Widget")}
	must(t, second(c.client.dynamic.Resource(widgets.Resource).Namespace("default").Create(t.Context(), there, metav1.CreateOptions{})))
	wanted := []types.NamespacedName{{Namespace: "default", Name: "there"}, {Namespace: "default", Name: "lost"}}
	p.Want("web", map[schema.GroupKind][]types.NamespacedName{widgets.GroupVersionKind.GroupKind(): wanted})
	p.Follow(widgets)
	if got := await(t, "word of the lost object", gone); got != "lost" {
		t.Errorf("%s is gone", got)
	}
	eventually(t, "the object is shown", func() bool { return p.Has(t.Context(), widgets, wanted[0]) })
}
