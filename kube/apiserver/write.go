package apiserver

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// write is the options of a write. The zero value is a write of the whole object.
type write struct {
	dry         bool   // a dry run: everything but the commit
	subresource string // "status"; empty for the object
	replace     bool   // the whole object comes from the client
	apply       bool   // the object comes from an apply patch, with the managers of its fields
}

// create stores an object of a client, or refuses it with the error of an API server. It fills in
// what an API server fills in. u belongs to the store from then on, and the caller must not change
// it.
func (s *store) create(k *kind, u *unstructured.Unstructured, w write) (*unstructured.Unstructured, error) {
	if u.GetName() == "" && u.GetGenerateName() != "" {
		u.SetName(u.GetGenerateName() + rand.String(5))
	}
	if err := checkName(k, u.GetName()); err != nil {
		return nil, err
	}
	if u.GetResourceVersion() != "" {
		return nil, internal("resourceVersion should not be set on objects to be created")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.namespaced && s.objects[namespaceKey(u.GetNamespace())] == nil {
		return nil, apierrors.NewNotFound(namespaces, u.GetNamespace())
	}
	key := key{k.resource(), u.GetNamespace(), u.GetName()}
	if s.objects[key] != nil {
		return nil, apierrors.NewAlreadyExists(k.resource(), u.GetName())
	}
	// Only the server sets these: what a client has copied from another object does not count.
	u.SetUID("")
	u.SetCreationTimestamp(metav1.Time{})
	u.SetDeletionTimestamp(nil)
	u.SetDeletionGracePeriodSeconds(nil)
	if k.generation { // other kinds keep what the client sends
		u.SetGeneration(0)
	}
	if !w.apply {
		u.SetManagedFields(nil)
	}
	if k.status && k.resource().String() != "nodes" { // a kubelet creates its Node with a status
		delete(u.Object, "status")
	}
	s.complete(k, u, nil)
	if err := s.checkFields(k, u); err != nil {
		return nil, err
	}
	if !w.dry {
		s.commit(key, u)
	}
	return u, nil
}

func namespaceKey(name string) key {
	return key{resource: namespaces, name: name}
}

// checkName allows lower-case DNS names, and for roles and their bindings, which have names such as
// system:node, all that can be a part of a path. Kinds with stricter rules are not checked for
// these.
func checkName(k *kind, name string) error {
	at := field.NewPath("metadata", "name")
	if name == "" {
		return invalid(k, name, field.Required(at, "name or generateName is required"))
	}
	check := validation.NameIsDNSSubdomain
	if k.Group == "rbac.authorization.k8s.io" {
		check = func(name string, _ bool) []string { return content.IsPathSegmentName(name) }
	}
	if problems := check(name, false); len(problems) > 0 {
		return invalid(k, name, field.Invalid(at, name, problems[0]))
	}
	return nil
}

func invalid(k *kind, name string, problems ...*field.Error) error {
	return apierrors.NewInvalid(k.WithKind(k.name).GroupKind(), name, problems)
}

// change makes the next version of an object of a copy of it, which it may change and return. Its
// error ends the update.
type change func(*unstructured.Unstructured) (*unstructured.Unstructured, error)

// update replaces an object by what change makes of a copy of it. A write of the object leaves its
// status alone and one of the status leaves the rest, where the kind has that subresource. A write
// that changes nothing gets no new resourceVersion, and no watch sees it.
func (s *store) update(k *kind, namespace, name string, w write, change change) (*unstructured.Unstructured, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := key{k.resource(), namespace, name}
	before := s.objects[key]
	if before == nil {
		return nil, apierrors.NewNotFound(k.resource(), name)
	}
	// With the lock held: no other client can write between the two, so a patch has no conflicts of
	// its own, only those with a version that it names.
	after, err := change(before.DeepCopy())
	if err != nil {
		return nil, err
	}
	if err := checkUpdate(k, before, after, w); err != nil {
		return nil, err
	}
	switch {
	case w.subresource == "status":
		only := before.DeepCopy()
		only.Object["status"] = after.Object["status"]
		only.SetManagedFields(after.GetManagedFields())
		after = only
	case k.status:
		if status, ok := before.DeepCopy().Object["status"]; ok {
			after.Object["status"] = status
		} else {
			delete(after.Object, "status")
		}
	}
	if err := s.checkFields(k, after); err != nil {
		return nil, err
	}
	if !w.apply {
		after.SetManagedFields(before.GetManagedFields())
	}
	s.complete(k, after, before)
	if w.dry || same(before, after) { // it still has the version of before
		return after, nil
	}
	if after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0 {
		s.commitGone(key) // without finalizers it is gone at once
		return after, nil
	}
	s.commit(key, after)
	return after, nil
}

// same reports whether nothing but managedFields is different. These have the time of the last
// write in them, so each write would be a change.
func same(before, after *unstructured.Unstructured) bool {
	return equality.Semantic.DeepEqual(written(before), written(after))
}

// written is an object without managedFields, and without fields that are null, which count as absent. It shares what
// it has with the object: each write compares whole objects.
func written(u *unstructured.Unstructured) map[string]any {
	out := maps.Clone(u.Object)
	if metadata, ok := out["metadata"].(map[string]any); ok {
		metadata = maps.Clone(metadata)
		delete(metadata, "managedFields")
		maps.DeleteFunc(metadata, isNull)
		out["metadata"] = metadata
	}
	maps.DeleteFunc(out, isNull)
	return out
}

func isNull(_ string, value any) bool { return value == nil }

// checkUpdate refuses what would be another object, an older version, or an object that gets a
// finalizer while it is being deleted. An update without a version replaces whatever there is, but
// for custom kinds, which must name one; a patch need not name one.
func checkUpdate(k *kind, before, after *unstructured.Unstructured, w write) error {
	name := before.GetName()
	switch version := after.GetResourceVersion(); {
	case after.GetName() != name:
		return apierrors.NewBadRequest(fmt.Sprintf("the name of the object (%s) does not match the name on the URL (%s)", after.GetName(), name))
	case after.GetUID() != "" && after.GetUID() != before.GetUID():
		return apierrors.NewConflict(k.resource(), name, fmt.Errorf("Precondition failed: UID in precondition: %s, UID in object meta: %s", after.GetUID(), before.GetUID())) //nolint:staticcheck // the text of API servers
	case version == "" && w.replace && k.custom:
		return invalid(k, name, field.Invalid(field.NewPath("metadata", "resourceVersion"), 0, "must be specified for an update"))
	case version != "" && version != before.GetResourceVersion():
		return apierrors.NewConflict(k.resource(), name, fmt.Errorf("the object has been modified; please apply your changes to the latest version and try again"))
	}
	if before.GetDeletionTimestamp() != nil {
		for _, finalizer := range after.GetFinalizers() {
			if !slices.Contains(before.GetFinalizers(), finalizer) {
				return invalid(k, name, field.Forbidden(field.NewPath("metadata", "finalizers"), "no new finalizers can be added if the object is being deleted"))
			}
		}
	}
	return nil
}

// complete sets the fields that an API server sets: the identity of the object, which keeps its previous
// identity, the fields of its kind, and last the generation, which depends on all others.
func (s *store) complete(k *kind, u, before *unstructured.Unstructured) {
	u.SetAPIVersion(k.String())
	u.SetKind(k.name)
	u.SetResourceVersion("")
	if before == nil {
		if u.GetUID() == "" {
			u.SetUID(uuid.NewUUID())
		}
		if created := u.GetCreationTimestamp(); created.IsZero() {
			u.SetCreationTimestamp(metav1.NewTime(time.Now()))
		}
	} else {
		u.SetUID(before.GetUID())
		u.SetCreationTimestamp(before.GetCreationTimestamp())
		u.SetResourceVersion(before.GetResourceVersion())
		u.SetGeneration(before.GetGeneration())
		if before.GetDeletionTimestamp() != nil {
			u.SetDeletionTimestamp(before.GetDeletionTimestamp())
			u.SetDeletionGracePeriodSeconds(before.GetDeletionGracePeriodSeconds())
		}
	}
	completeKind(k, u)
	if k.generation {
		u.SetGeneration(generation(u, before))
	}
	s.runWorkload(k, u)
}

// generation counts the changes of what is wanted: metadata and status do not count. The first is
// 1, unless the object has one, which only one of Apply can.
func generation(u, before *unstructured.Unstructured) int64 {
	if before == nil {
		return max(u.GetGeneration(), 1)
	}
	if equality.Semantic.DeepEqual(wanted(before), wanted(u)) {
		return before.GetGeneration()
	}
	return before.GetGeneration() + 1
}

// wanted is an object without its metadata and status, not only its spec: some kinds with a
// generation have other fields.
func wanted(u *unstructured.Unstructured) map[string]any {
	out := maps.Clone(u.Object)
	delete(out, "metadata")
	delete(out, "status")
	return out
}

// commit stores an object and notifies the watches, unless nothing is different. The caller holds
// the lock.
func (s *store) commit(key key, after *unstructured.Unstructured) {
	before := s.objects[key]
	if before != nil {
		after.SetResourceVersion(before.GetResourceVersion()) // the version alone makes no difference
		if same(before, after) {
			return
		}
	}
	s.number++
	after.SetResourceVersion(strconv.FormatInt(s.number, 10))
	s.objects[key] = after
	s.notify(event{s.number, key, before, after})
}

// commitGone removes an object and notifies the watches. A removal has a version of its own, as any
// change. A namespace that is being deleted may be empty now. The caller holds the lock.
func (s *store) commitGone(key key) {
	s.number++
	before := s.objects[key]
	delete(s.objects, key)
	s.notify(event{s.number, key, before, nil})
	if s.gone != nil {
		s.gone(withoutManagers(before).Object)
	}
	s.mayEnd(key.namespace)
}

// notify records a change and passes it to all watches. The kinds of a definition are served before that.
func (s *store) notify(e event) {
	s.history.add(e)
	if e.key.resource == definitions {
		s.define()
	}
	for _, f := range s.current() {
		s.see(f, e)
	}
	if e.key.resource == definitions {
		s.watcher.KindsChanged()
	}
}
