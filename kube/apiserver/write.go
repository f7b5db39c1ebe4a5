package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"addon-operator/kube/fields"
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

// completeKind does what the API server, or a controller of the cluster, does to objects of some
// kinds and what hooks and Helm rely on. It is called with each write and must lead to the same
// result for the same object, or a write without a difference would not be recognised as one.
func completeKind(k *kind, u *unstructured.Unstructured) {
	switch k.resource().String() {
	case "namespaces":
		labels := u.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["kubernetes.io/metadata.name"] = u.GetName()
		u.SetLabels(labels)
		setDefault(u, "Active", "status", "phase")
		if u.GetDeletionTimestamp() == nil { // that of the controller that empties the namespace: removeNamespace here
			_ = unstructured.SetNestedStringSlice(u.Object, []string{"kubernetes"}, "spec", "finalizers")
		}
	case "secrets":
		foldStringData(u) // before it is stored, so that two writes of the same text are equal
		setDefault(u, "Opaque", "type")
	case "customresourcedefinitions.apiextensions.k8s.io":
		u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": "True"}}}
	}
}

// setDefault sets a text where there is none. A parent of another type stays as it is.
func setDefault(u *unstructured.Unstructured, value string, fields ...string) {
	if old, _, _ := unstructured.NestedString(u.Object, fields...); old == "" {
		_ = unstructured.SetNestedField(u.Object, value, fields...) // a string is not a map: nothing can be set in it
	}
}

// foldStringData writes stringData into data, as an API server does: clients never read it back.
func foldStringData(u *unstructured.Unstructured) {
	texts, ok, _ := unstructured.NestedStringMap(u.Object, "stringData")
	if !ok {
		return
	}
	data, _, _ := unstructured.NestedMap(u.Object, "data")
	if data == nil {
		data = map[string]any{}
	}
	for name, text := range texts {
		data[name] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	u.Object["data"] = data
	delete(u.Object, "stringData")
}

// The library that API servers use computes which fields the managers of apply patches own, so that their conflicts
// are those of a cluster. Other writes own nothing here. Lists of kinds that it has no schema for, those of
// CustomResourceDefinitions, count as a whole.

// applied is what an apply patch makes of an object; before is nil for one that does not exist. The
// error is a conflict when another manager has another value for a field, unless force takes it
// over.
func applied(k *kind, subresource string, before, patch *unstructured.Unstructured, manager string, force bool) (*unstructured.Unstructured, error) {
	fields, err := fieldManager(k, subresource)
	if err != nil {
		return nil, err
	}
	live := blank(k)
	if before != nil {
		live = before
	}
	after, err := fields.Apply(live, patch, manager, force)
	if err != nil {
		return nil, err
	}
	u, ok := after.(*unstructured.Unstructured)
	if !ok {
		return nil, internal("the apply patch made no object")
	}
	return u, nil
}

// blank is an object without fields: what an object is compared with that does not exist yet.
func blank(k *kind) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(k.WithKind(k.name))
	return u
}

// known has the keys by which lists are merged. Making it takes long.
var known = sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(scheme.Scheme) })

// fieldManager merges lists as a whole where known does not have the kind: custom kinds, and some of those in the
// scheme. The scheme sets no defaults of untyped objects, as all in the store are.
func fieldManager(k *kind, subresource string) (*managedfields.FieldManager, error) {
	converter := known()
	if _, err := converter.ObjectToTyped(blank(k)); err != nil {
		converter = managedfields.NewDeducedTypeConverter()
	}
	return managedfields.NewDefaultFieldManager(converter, onlyVersion{}, scheme.Scheme, unstructuredscheme.NewUnstructuredCreator(), k.WithKind(k.name), k.GroupVersion, subresource, nil)
}

// onlyVersion converts nothing: every object is kept in the version it was written in.
type onlyVersion struct{ runtime.ObjectConvertor }

// ConvertToVersion implements runtime.ObjectConvertor.
func (onlyVersion) ConvertToVersion(o runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return o, nil
}

// withoutManagers is a copy of an object without the managers of its fields.
func withoutManagers(u *unstructured.Unstructured) *unstructured.Unstructured {
	u = u.DeepCopy()
	unstructured.RemoveNestedField(u.Object, "metadata", "managedFields")
	return u
}

// FieldProblem is what is wrong with a field of an object.
type FieldProblem = fields.Problem

// OnUnknownField calls f with each field of an object of a client, from now on, that its kind does
// not have. Then the server does as others do: it drops such fields of built-in kinds, and refuses
// values of another type. Those of custom kinds stay, and so f gets their values of another type,
// too. f may not call the server.
func (s *Server) OnUnknownField(f func(object map[string]any, p FieldProblem)) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.unknown = f
}

// checkFields drops what the built-in kind of an object does not have, and reports it to the observer.
// Without an observer nothing is checked, and u stays as it is.
func (s *store) checkFields(k *kind, u *unstructured.Unstructured) error {
	if s.unknown == nil {
		return nil
	}
	for _, p := range s.checker.Check(u.Object) {
		switch {
		case k.custom:
		case p.Unknown:
			p.Drop()
		default:
			return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %s", k.name, k.Version, k.name, p))
		}
		s.unknown(u.Object, p)
	}
	return nil
}

// decode reads JSON or YAML, in which apply patches come; integers stay integers of any size that
// int64 has, where encoding/json would make floats of them.
func decode(data []byte) (map[string]any, error) {
	data, err := yaml.YAMLToJSON(data)
	if err != nil {
		return nil, err
	}
	var object map[string]any
	err = utiljson.Unmarshal(data, &object)
	return object, err
}

// patch serves PATCH. An apply patch is no change of an object but a wish of a manager, and may
// create the object, so it has a way of its own.
func (q *request) patch() (any, error) {
	data, err := io.ReadAll(q.http.Body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	contentType, _, _ := strings.Cut(q.http.Header.Get("Content-Type"), ";")
	patchType := types.PatchType(contentType)
	if patchType == types.ApplyYAMLPatchType {
		return q.apply(data)
	}
	return q.store.update(q.kind, q.namespace, q.name, q.write(), func(u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		next, err := patched(q.kind, patchType, u, data)
		if err != nil {
			return nil, err
		}
		return next, q.place(next)
	})
}

// apply serves server-side apply: it merges what a manager wants with what others manage, and
// creates what does not exist.
func (q *request) apply(data []byte) (any, error) {
	manager := q.query.Get("fieldManager")
	if manager == "" {
		return nil, apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: "PatchOptions"}, "", field.ErrorList{field.Required(field.NewPath("fieldManager"), "is required for apply patch")})
	}
	object, err := decode(data)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	patch := &unstructured.Unstructured{Object: object}
	if err := q.place(patch); err != nil {
		return nil, err
	}
	patch.SetName(q.name)
	change := func(before *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return applied(q.kind, q.subresource, before, patch, manager, isTrue(q.query.Get("force")))
	}
	w := q.write()
	w.apply = true
	got, err := q.store.update(q.kind, q.namespace, q.name, w, change)
	if !apierrors.IsNotFound(err) || q.subresource != "" {
		return got, err
	}
	// Between the two, another client may create the object: then the client learns that it exists.
	made, err := change(nil)
	if err != nil {
		return nil, err
	}
	q.created = true
	return q.store.create(q.kind, made, w)
}

// patched is the object after a patch. The way over JSON makes sure that the result shares nothing
// with the object, and that its values are those of JSON.
func patched(k *kind, patchType types.PatchType, u *unstructured.Unstructured, patch []byte) (*unstructured.Unstructured, error) {
	before, err := json.Marshal(u.Object)
	if err != nil {
		return nil, err
	}
	after, err := patchedJSON(k, patchType, before, patch)
	if err != nil {
		return nil, err
	}
	next := &unstructured.Unstructured{}
	if next.Object, err = decode(after); err != nil {
		return nil, invalidPatch(err)
	}
	return next, nil
}

// patchedJSON applies a patch as API servers do. A strategic patch needs the Go type of the kind,
// so for custom resources it is refused, as there. A patch that cannot be read is a bad request
// (400), one that does not fit the object is invalid (422).
func patchedJSON(k *kind, patchType types.PatchType, before, patch []byte) (after []byte, err error) {
	switch patchType {
	case types.JSONPatchType:
		ops, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if after, err = ops.Apply(before); err != nil {
			return nil, invalidPatch(err)
		}
		return after, nil
	case types.StrategicMergePatchType:
		if patch, err = yaml.YAMLToJSON(patch); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		typed, err := scheme.Scheme.New(k.WithKind(k.name))
		if err != nil {
			break // how to merge the lists of custom kinds is unknown
		}
		if after, err = strategicpatch.StrategicMergePatch(before, patch, typed); err != nil {
			return nil, invalidPatch(err)
		}
		return after, nil
	case types.MergePatchType:
		if !json.Valid(patch) {
			return nil, apierrors.NewBadRequest("the patch is not JSON")
		}
		if after, err = jsonpatch.MergePatch(before, patch); err != nil {
			return nil, invalidPatch(err)
		}
		return after, nil
	}
	return nil, failure(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, fmt.Sprintf("the API server of scenarios does not support patches of type %q for %s", patchType, k.name))
}

// invalidPatch is the answer to a patch that is well-formed but does not fit the object.
func invalidPatch(err error) error {
	return failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "the patch cannot be applied: "+err.Error())
}
