package apiserver

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	fieldsets "k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"addon-operator/kube"
	"addon-operator/kube/fields"
)

// store keeps the objects, and handles them as an API server and its garbage collector do.
// Requests create, update, delete and get, which take the lock, as served does; the
// caller of the other methods holds it.
//
// Every change goes through commit or commitGone, which count it, add it to the history, and notify
// the watches of the operator in the same goroutine. So when a caller has its answer, the operator has
// been notified.
type store struct {
	mu      sync.Mutex
	number  int64                              // the last resource version, one count for all kinds
	objects map[key]*unstructured.Unstructured // with managedFields; never written to
	kinds   kinds                              // define makes them again when a definition changes, and the checker
	checker *fields.Checker
	history history
	watcher *kube.Watcher // of the operator
	feeds   []feed        // of its watches, in the order in which they began
	denied  map[key]bool  // what these may not read: resources in a namespace, or in all

	// The observers of OnGone, OnRequest and OnUnknownField are called with the lock held; nil:
	// none.
	gone    func(object map[string]any)
	review  func(Request) error
	unknown func(object map[string]any, p fields.Problem)

	running bool // workloads count as running
}

func newStore(served []*kind) *store {
	s := &store{
		number: firstVersion, objects: map[key]*unstructured.Unstructured{}, history: newHistory(firstVersion),
		kinds: kinds{all: served, fixed: len(served)}, checker: fields.New(), denied: map[key]bool{},
	}
	s.watcher = kube.NewFedWatcher(s)
	return s
}

// firstVersion makes versions look like those of a cluster that is in use, and cross from three
// digits to four early: code that expects small numbers, or compares texts, is found out.
const firstVersion = 998

// key names an object. All versions of its kind share it; the namespace is empty for a cluster-wide
// kind.
type key struct {
	resource        schema.GroupResource
	namespace, name string
}

// compare orders objects as the storage of a cluster does: "a-b/x" is before "a/x".
func (k key) compare(other key) int {
	return cmp.Or(
		cmp.Compare(k.resource.String(), other.resource.String()),
		cmp.Compare(k.namespace+"/"+k.name, other.namespace+"/"+other.name),
	)
}

// served are the kinds of now.
func (s *store) served() kinds {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kinds
}

// define reads the CustomResourceDefinitions again. The kinds of one that is being deleted are not
// served any more, although its objects may still be held by finalizers.
func (s *store) define() {
	var defined []*kind
	var crds []map[string]any
	for _, key := range s.definitions() {
		crds = append(crds, s.objects[key].Object)
		if s.objects[key].GetDeletionTimestamp() == nil {
			defined = append(defined, definedKinds(s.objects[key])...)
		}
	}
	s.kinds.define(defined)
	s.checker = fields.New(crds...)
}

// keys are those of some objects. Their order makes what happens to objects the same in each run.
func (s *store) keys(chosen func(at key, u *unstructured.Unstructured) bool) (list []key) {
	for at, u := range s.objects {
		if chosen(at, u) {
			list = append(list, at)
		}
	}
	slices.SortFunc(list, key.compare)
	return list
}

// definitions are the keys of the CustomResourceDefinitions.
func (s *store) definitions() []key {
	return s.keys(func(at key, _ *unstructured.Unstructured) bool { return at.resource == definitions })
}

// get returns the stored object itself, which the caller must not change.
func (s *store) get(k *kind, namespace, name string) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if u := s.objects[key{k.resource(), namespace, name}]; u != nil {
		return u, nil
	}
	return nil, apierrors.NewNotFound(k.resource(), name)
}

// event is a change of one object; before or after is nil. Stored objects are never
// written to.
type event struct {
	number        int64 // the resource version: each change has its own, and they grow by one
	key           key
	before, after *unstructured.Unstructured
}

// history are the latest changes, for watches from a version.
type history struct {
	events []event
	floor  int64         // the version before the first of them
	news   chan struct{} // closed at each change
}

// longestHistory is how many changes are remembered. A watch that needs an older one is
// refused, and the client lists again.
const longestHistory = 10_000

func newHistory(version int64) history { return history{floor: version, news: make(chan struct{})} }

// add forgets the oldest change when there are too many. It copies the rest then, because answers
// may still read the slice that since has returned.
func (h *history) add(e event) {
	h.events = append(h.events, e)
	if n := len(h.events) - longestHistory; n > 0 {
		h.floor = h.events[n-1].number
		h.events = slices.Clone(h.events[n:])
	}
	close(h.news)
	h.news = make(chan struct{})
}

// since are the changes after a version; it reports false when they are forgotten.
func (h *history) since(version int64) ([]event, bool) {
	if version < h.floor {
		return nil, false
	}
	i, _ := slices.BinarySearchFunc(h.events, version+1, func(e event, number int64) int { return int(e.number - number) })
	return h.events[i:], true
}

// deletion is the options of a delete. The zero value deletes it with all that it owns. There is
// no difference between the foreground and the background: dependents are collected at once.
type deletion struct {
	preconditions *metav1.Preconditions // nil: none
	orphan        bool                  // what it owns stays, without this owner
	dry           bool                  // a dry run: check the preconditions only
}

// delete removes an object. The object that it returns has a deletion timestamp when a finalizer,
// or the content of a namespace, holds it.
func (s *store) delete(k *kind, namespace, name string, d deletion) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := key{k.resource(), namespace, name}
	u := s.objects[at]
	if u == nil {
		return nil, apierrors.NewNotFound(k.resource(), name)
	}
	if p := d.preconditions; p != nil && (p.UID != nil && *p.UID != u.GetUID() || p.ResourceVersion != nil && *p.ResourceVersion != u.GetResourceVersion()) {
		return nil, apierrors.NewConflict(k.resource(), name, fmt.Errorf("the precondition does not hold"))
	}
	if d.dry {
		return u, nil
	}
	if d.orphan {
		s.orphan(u.GetUID())
	}
	return s.remove(at), nil
}

// remove removes an object, or marks it when something holds it, and returns it as it was last. The
// object must exist. It removes what belongs to the object, too: the content of a namespace, the
// objects of a definition, and what only this object owns. These removals may be nested to any
// depth, and may lead back to the object. The caller holds the lock.
func (s *store) remove(at key) *unstructured.Unstructured {
	u := s.objects[at]
	switch {
	case at.resource == namespaces:
		return s.removeNamespace(at, u)
	case len(u.GetFinalizers()) > 0:
		return s.mark(at, u)
	case at.resource == definitions:
		for _, k := range definedKinds(u) {
			s.removeAll(func(other key, _ *unstructured.Unstructured) bool { return other.resource == k.resource() })
		}
	}
	if s.objects[at] == nil { // a nested removal has led back to it
		return u
	}
	s.commitGone(at)
	s.collect(u.GetUID())
	return u
}

// mark notes that an object is to be removed as soon as nothing holds it: by the update that
// removes the last finalizer. A second deletion changes nothing, so the time is that of the first.
func (s *store) mark(at key, u *unstructured.Unstructured) *unstructured.Unstructured {
	if u.GetDeletionTimestamp() != nil {
		return u
	}
	u = u.DeepCopy()
	now, none := metav1.NewTime(time.Now()), int64(0)
	u.SetDeletionTimestamp(&now)
	u.SetDeletionGracePeriodSeconds(&none)
	s.commit(at, u)
	return u
}

// removeNamespace removes the objects in a namespace; the namespace is removed with the last of them. Its
// finalizer in spec does not hold it, because this function does the work of that finalizer; one in
// metadata does.
func (s *store) removeNamespace(at key, u *unstructured.Unstructured) *unstructured.Unstructured {
	marked := u.DeepCopy()
	_ = unstructured.SetNestedField(marked.Object, "Terminating", "status", "phase") // it is a map: completeKind made it
	marked = s.mark(at, marked)
	s.removeAll(in(at.name))
	s.mayEnd(at.name)
	return marked
}

// in chooses the objects in a namespace.
func in(namespace string) func(key, *unstructured.Unstructured) bool {
	return func(at key, _ *unstructured.Unstructured) bool { return at.namespace == namespace }
}

// removeAll removes objects in the order of their keys, so that events have the same order each
// time. A removal may remove others that are still to come.
func (s *store) removeAll(chosen func(key, *unstructured.Unstructured) bool) {
	for _, at := range s.keys(chosen) {
		if s.objects[at] != nil {
			s.remove(at)
		}
	}
}

// mayEnd removes a namespace that is being deleted when nothing is left in it. It is called after
// each removal, with the namespace of the object, which is empty for one without.
func (s *store) mayEnd(name string) {
	at := namespaceKey(name)
	u := s.objects[at]
	going := u != nil && u.GetDeletionTimestamp() != nil && len(u.GetFinalizers()) == 0
	if name != "" && going && len(s.keys(in(name))) == 0 {
		s.commitGone(at)
	}
}

// collect removes what an object that is gone has owned, unless another owner is there. It is the
// garbage collector of a cluster, which works a moment later there, but to the same end.
func (s *store) collect(owner types.UID) {
	for _, at := range s.ownedBy(owner) {
		if u := s.objects[at]; u != nil && !slices.ContainsFunc(u.GetOwnerReferences(), s.exists) {
			s.remove(at)
		}
	}
}

// orphan makes what an object has owned independent of it. It comes before the removal, so that
// collect finds nothing.
func (s *store) orphan(owner types.UID) {
	for _, at := range s.ownedBy(owner) {
		u := s.objects[at].DeepCopy()
		kept := slices.DeleteFunc(u.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner })
		if u.SetOwnerReferences(kept); len(kept) == 0 {
			unstructured.RemoveNestedField(u.Object, "metadata", "ownerReferences")
		}
		s.commit(at, u)
	}
}

// ownedBy lists the objects that name an owner, in the order of their keys. Owners count by their
// UID alone, in all namespaces.
func (s *store) ownedBy(owner types.UID) []key {
	return s.keys(func(_ key, u *unstructured.Unstructured) bool {
		return slices.ContainsFunc(u.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner })
	})
}

// exists reports whether an owner is there. One that is being deleted still is.
func (s *store) exists(r metav1.OwnerReference) bool {
	for _, u := range s.objects {
		if u.GetUID() == r.UID {
			return true
		}
	}
	return false
}

// selection is the objects of a resource that a request or a watch of the operator is about. The zero value is not
// valid.
type selection struct {
	resource        schema.GroupResource
	namespace, name string // empty: all
	labels          labels.Selector
	fields          fieldsets.Selector
}

// newSelection parses selectors; empty texts select everything.
func newSelection(labelText, fieldText string) (s selection, err error) {
	if s.labels, err = labels.Parse(labelText); err == nil {
		s.fields, err = fieldsets.ParseSelector(fieldText)
	}
	return s, err
}

// matches reports whether an object is selected; it is nil for one that does not exist.
func (s selection) matches(at key, u *unstructured.Unstructured) bool {
	return u != nil && at.resource == s.resource && (s.namespace == "" || s.namespace == at.namespace) &&
		(s.name == "" || s.name == at.name) && s.labels.Matches(labels.Set(u.GetLabels())) && s.fields.Matches(s.fieldsOf(u))
}

// fieldsOf are the fields that are asked for, by their paths in the object. An absent field, and null, is the empty
// text.
func (s selection) fieldsOf(u *unstructured.Unstructured) fieldsets.Set {
	set := fieldsets.Set{}
	for _, r := range s.fields.Requirements() {
		if value, _, _ := unstructured.NestedFieldNoCopy(u.Object, strings.Split(r.Field, ".")...); value != nil {
			set[r.Field] = fmt.Sprint(value)
		}
	}
	return set
}

// shows is a change as a watch of the selection shows it, empty for none: an object that begins to match is ADDED, one
// that no longer matches is DELETED in its last matching state, with the version of the change.
func (s selection) shows(e event) (change string, u *unstructured.Unstructured) {
	switch before, after := s.matches(e.key, e.before), s.matches(e.key, e.after); {
	case after && !before:
		return "ADDED", e.after
	case after:
		return "MODIFIED", e.after
	case before:
		gone := e.before.DeepCopy()
		gone.SetResourceVersion(strconv.FormatInt(e.number, 10))
		return "DELETED", gone
	}
	return "", nil
}
