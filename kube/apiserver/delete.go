package apiserver

import (
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// deletion says how an object is deleted. The garbage of it is collected at once.
type deletion struct {
	preconditions *metav1.Preconditions
	orphan, dry   bool
}

// delete removes an object. The object that it returns has a deletion timestamp when
// something holds it.
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

// remove removes an object, or marks it when something holds it, and returns it as it was
// last; the caller holds the lock.
func (s *store) remove(at key) *unstructured.Unstructured {
	u := s.objects[at]
	switch {
	case at.resource == namespaces:
		return s.removeNamespace(at, u)
	case len(u.GetFinalizers()) > 0:
		return s.mark(at, u)
	case at.resource == definitions:
		for _, k := range definedKinds(u) {
			s.removeAll(func(other key) bool { return other.resource == k.resource() })
		}
	}
	if s.objects[at] == nil { // its own garbage took it along
		return u
	}
	s.commitGone(at)
	s.collect(u.GetUID())
	return u
}

// mark notes that an object shall go as soon as nothing holds it.
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

// removeNamespace removes what is in a namespace; the namespace goes with the last of it.
func (s *store) removeNamespace(at key, u *unstructured.Unstructured) *unstructured.Unstructured {
	marked := u.DeepCopy()
	_ = unstructured.SetNestedField(marked.Object, "Terminating", "status", "phase") // it is a map: completeKind made it
	marked = s.mark(at, marked)
	s.removeAll(func(other key) bool { return other.namespace == at.name })
	s.mayEnd(at.name)
	return marked
}

func (s *store) removeAll(chosen func(key) bool) {
	for _, at := range slices.SortedFunc(maps.Keys(s.objects), key.compare) {
		if chosen(at) && s.objects[at] != nil {
			s.remove(at)
		}
	}
}

// mayEnd removes a namespace that shall go when nothing is left in it.
func (s *store) mayEnd(name string) {
	at := namespaceKey(name)
	u := s.objects[at]
	if name == "" || u == nil || u.GetDeletionTimestamp() == nil || len(u.GetFinalizers()) > 0 {
		return
	}
	for other := range s.objects {
		if other.namespace == name {
			return
		}
	}
	s.commitGone(at)
}

// collect removes what an object that is gone has owned, unless another owner is there.
func (s *store) collect(owner types.UID) {
	for _, at := range s.ownedBy(owner) {
		if u := s.objects[at]; u != nil && !slices.ContainsFunc(u.GetOwnerReferences(), s.exists) {
			s.remove(at)
		}
	}
}

// orphan makes what an object has owned independent of it.
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

func (s *store) ownedBy(owner types.UID) (list []key) {
	for at, u := range s.objects {
		if slices.ContainsFunc(u.GetOwnerReferences(), func(r metav1.OwnerReference) bool { return r.UID == owner }) {
			list = append(list, at)
		}
	}
	slices.SortFunc(list, key.compare)
	return list
}

func (s *store) exists(r metav1.OwnerReference) bool {
	for _, u := range s.objects {
		if u.GetUID() == r.UID {
			return true
		}
	}
	return false
}
