package apiserver

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

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
