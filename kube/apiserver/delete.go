package apiserver

import (
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

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
