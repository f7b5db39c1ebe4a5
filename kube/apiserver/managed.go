package apiserver

import (
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/unstructuredscheme"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
)

// The library that API servers use computes which fields the managers of apply patches own, so that their conflicts are
// those of a cluster. Other writes own nothing here. Lists of kinds that it has no schema for, those of
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

// fieldManager merges lists as a whole where known does not have the kind: custom kinds, and some of those in the scheme.
// The scheme sets no defaults of untyped objects, as all in the store are.
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
