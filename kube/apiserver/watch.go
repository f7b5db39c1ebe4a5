package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/kube"
)

// Watch is one watch of the operator with its snapshot, in place of kube.Watch. It reports changes
// in the goroutine that makes them, so that a test which waits for the operator to be idle need not
// wait for a connection. It copies the rules of kube.Watch (C35, C38, C39, limits), not its code.
type Watch struct {
	store *store
	ctx   context.Context
	spec  kube.Spec
	selection
	namespaces labels.Selector // nil: not by labels
	notify     func(kube.Change)
	synced     func()

	// The lock of the store guards these.
	complete bool // the first list was taken; it stays so when the kind is gone
	tooLarge bool // more than the limit of the spec: nothing is kept any more
	kept     map[key]held
	bytes    int    // that kept takes, about
	seq      uint64 // of the last change
	failures uint64 // of the filter
}

// WatchObjects is the watch of a kubernetes binding, as kube.Watcher has it. It ends with its
// context. The functions are called with the lock of the store held, so they may not call the
// server or the Watch.
func (s *Server) WatchObjects(ctx context.Context, spec kube.Spec, notify func(kube.Change), synced func()) (*Watch, error) {
	w := &Watch{store: s.store, ctx: ctx, spec: spec, notify: notify, synced: synced, kept: map[key]held{}}
	var err error
	if w.selection, err = newSelection("", spec.Fields); err != nil {
		return nil, err
	}
	if spec.Labels != nil {
		if w.labels, err = metav1.LabelSelectorAsSelector(spec.Labels); err != nil {
			return nil, err
		}
	}
	if spec.NamespaceLabels != nil {
		if w.namespaces, err = metav1.LabelSelectorAsSelector(spec.NamespaceLabels); err != nil {
			return nil, err
		}
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.watches = append(s.store.watches, w)
	context.AfterFunc(ctx, w.Stop) // in a goroutine of its own; until it runs, see checks ctx
	w.begin()
	return w, nil
}

// share is what one permission is about: a resource in a namespace, or everywhere.
type share struct {
	resource  schema.GroupResource
	namespace string
}

// Deny takes the permission to read a kind from the watches of the operator, in one namespace or,
// if that is empty, everywhere; or gives it back. A watch over all namespaces has one permission
// for all of them, other watches one for each namespace. Changes are not reported while the
// permission lacks.
func (s *Server) Deny(word, namespace string, denied bool) error {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	k := s.store.kinds.find("", word)
	if k == nil {
		return fmt.Errorf("there is no kind %s", word)
	}
	s.store.denied[share{k.resource(), namespace}] = denied
	if denied {
		return nil
	}
	for _, w := range s.store.watches {
		if w.kind() == k {
			w.listAgain(k)
		}
	}
	return nil
}

// kind is nil until it is served.
func (w *Watch) kind() *kind { return w.store.kinds.find(w.spec.APIVersion, w.spec.Kind) }

// listAgain reports what has changed while the watch was denied, in the order of the keys, and then
// that the watch is complete again. What may still not be read in another namespace stays as it
// was.
func (w *Watch) listAgain(k *kind) {
	if !w.complete {
		w.begin()
		return
	}
	all := slices.Concat(slices.Collect(maps.Keys(w.kept)), w.store.sortedKeys(k.resource()))
	slices.SortFunc(all, key.compare)
	for _, at := range slices.Compact(all) {
		w.seeObject(at, w.store.objects[at])
	}
	w.synced()
}

// refused names the namespace that the watch covers and may not read, "" for all; the caller
// holds the store's lock.
func (w *Watch) refused(k *kind) (namespace string, refused bool) {
	if w.store.denied[share{resource: k.resource()}] {
		return "", true
	}
	switch {
	case !k.namespaced:
		return "", false
	case w.namespaces == nil:
		for _, namespace := range w.spec.Namespaces {
			if w.store.denied[share{k.resource(), namespace}] {
				return namespace, true
			}
		}
		return "", false
	}
	for _, at := range w.store.sortedKeys(namespaces) {
		if w.store.denied[share{k.resource(), at.name}] && w.covers(at.name) {
			return at.name, true
		}
	}
	return "", false
}

// blind reports whether a change of an object must not be reported, because the watch may not read
// it.
func (w *Watch) blind(at key) bool {
	if w.store.denied[share{resource: at.resource}] {
		return true
	}
	each := w.namespaces != nil || len(w.spec.Namespaces) > 0
	return each && w.store.denied[share{at.resource, at.namespace}] && w.covers(at.namespace)
}

// begin takes the first list, if the kind exists and may be read. It is called again with each
// change in the store until it has succeeded. The caller holds the store's lock.
func (w *Watch) begin() {
	k := w.kind()
	if k == nil {
		return
	}
	if _, refused := w.refused(k); refused {
		return
	}
	for _, at := range w.store.sortedKeys(k.resource()) {
		if u := w.store.objects[at]; w.wants(u) {
			w.kept[at] = w.keep(u)
			w.bytes += w.kept[at].size()
		}
	}
	if w.weigh() {
		return
	}
	w.complete = true
	w.synced()
}

// weigh drops the kept objects when they are too large, as kube.Watch does, and reports whether they were.
// It measures objects less exactly.
func (w *Watch) weigh() bool {
	if w.spec.Limit > 0 && w.bytes > w.spec.Limit {
		w.tooLarge = true
		clear(w.kept)
		w.spec.Overflowed()
	}
	return w.tooLarge
}

// held is what a watch keeps of an object.
type held struct {
	object kube.Object
	failed bool            // the filter failed on it
	mark   json.RawMessage // the filter result or, without one, the whole object: a change is one of this (C38)
}

func (h held) size() int {
	return len(h.object.Name) + len(h.object.Object) + len(h.object.FilterResult)
}

// wants reports whether an object, nil for none, is selected by the spec.
func (w *Watch) wants(u *unstructured.Unstructured) bool {
	if u == nil || !w.matches(u) {
		return false
	}
	if len(w.spec.Names) > 0 && !slices.Contains(w.spec.Names, u.GetName()) {
		return false
	}
	return w.covers(u.GetNamespace())
}

// covers reports whether objects of a namespace are watched; it is empty for those without one.
func (w *Watch) covers(name string) bool {
	if w.namespaces != nil && name != "" {
		namespace := w.store.objects[namespaceKey(name)]
		return namespace != nil && w.namespaces.Matches(labels.Set(namespace.GetLabels()))
	}
	return len(w.spec.Namespaces) == 0 || name == "" || slices.Contains(w.spec.Namespaces, name)
}

// keep makes what is kept of an object. One on which the filter fails has no result, and each
// change of it counts (C39).
func (w *Watch) keep(u *unstructured.Unstructured) held {
	h := held{object: kube.Object{Namespace: u.GetNamespace(), Name: u.GetName()}}
	whole := withoutManagers(u).Object
	text, _ := json.Marshal(whole) // a tree of JSON can be written
	h.mark = text
	if w.spec.Filter != nil {
		if result, err := w.spec.Filter(whole); err == nil {
			h.object.FilterResult, h.mark = result, result
		} else {
			h.failed = true
			w.failures++
		}
	}
	if w.spec.KeepObjects {
		h.object.Object = text
	}
	return h
}

// see handles a change; the caller holds the store's lock. A change of a namespace may be two
// things: for a selector of namespaces, and for a watch of this kind.
func (w *Watch) see(e event) {
	if w.ctx.Err() != nil || w.tooLarge {
		return
	}
	if w.namespaces != nil && e.key.resource == namespaces {
		w.seeNamespace(e.key.name)
	}
	if !w.complete {
		w.begin()
		return
	}
	k := w.kind()
	if k == nil || k.resource() != e.key.resource {
		return
	}
	w.seeObject(e.key, e.after)
}

// seeNamespace looks again at the objects of a namespace whose labels may have changed: they may
// begin to match, or no longer match.
func (w *Watch) seeNamespace(name string) {
	k := w.kind()
	if k == nil {
		return
	}
	for _, at := range w.store.sortedKeys(k.resource()) {
		if at.namespace == name {
			w.seeObject(at, w.store.objects[at])
		}
	}
}

// seeObject compares an object, nil for none, with what the watch keeps of it, and notifies the
// difference. It may be called for an object that has not changed.
func (w *Watch) seeObject(at key, now *unstructured.Unstructured) {
	if w.blind(at) {
		return
	}
	old, had := w.kept[at]
	change := kube.Change{Type: kube.Deleted, Object: old.object}
	switch {
	case w.wants(now):
		next := w.keep(now)
		w.kept[at] = next
		w.bytes += next.size() - old.size()
		if w.weigh() || had && old.failed == next.failed && bytes.Equal(old.mark, next.mark) {
			return
		}
		change.Object, change.Type, change.Version = next.object, kube.Added, now.GetResourceVersion()
		if had {
			change.Type = kube.Modified
		}
	case had:
		delete(w.kept, at)
		w.bytes -= old.size()
	default:
		return
	}
	w.seq++
	change.Seq = w.seq
	w.notify(change)
}

// Snapshot implements shared.Watch.
func (w *Watch) Snapshot() ([]kube.Object, uint64) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	list := make([]kube.Object, 0, len(w.kept))
	for _, at := range slices.SortedFunc(maps.Keys(w.kept), key.compare) {
		list = append(list, w.kept[at].object)
	}
	return list, w.seq
}

// State implements shared.Watch. It has no phases for a lost connection and a list on its way: a
// list takes no time here.
func (w *Watch) State() kube.WatchState {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if w.tooLarge {
		return kube.WatchState{Phase: kube.TooLarge, Incomplete: true, Message: fmt.Sprintf("its objects take more than %d bytes", w.spec.Limit)}
	}
	k := w.kind()
	if k != nil {
		if namespace, refused := w.refused(k); refused {
			message := "not allowed to list " + k.resource().String()
			if namespace != "" {
				message += " in namespace " + namespace
			}
			return kube.WatchState{Phase: kube.Forbidden, Message: message, Incomplete: !w.complete}
		}
	}
	if k == nil || !w.complete {
		return kube.WatchState{Phase: kube.WaitingForKind, Incomplete: !w.complete, Message: "waiting for " + strings.TrimSpace(w.spec.APIVersion+" "+w.spec.Kind)}
	}
	return kube.WatchState{Phase: kube.Complete, Kind: k.name, Objects: len(w.kept), FilterErrors: w.failures}
}

// Stop implements shared.Watch.
func (w *Watch) Stop() {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	w.store.watches = slices.DeleteFunc(w.store.watches, func(other *Watch) bool { return other == w })
}
