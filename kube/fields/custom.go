package fields

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// defined are the shapes of the kinds of a CustomResourceDefinition, by version. A version without
// a schema keeps everything.
func defined(crd map[string]any) map[schema.GroupVersionKind]shape {
	all := map[schema.GroupVersionKind]shape{}
	spec, _ := crd["spec"].(map[string]any)
	group, _ := spec["group"].(string)
	names, _ := spec["names"].(map[string]any)
	kind, _ := names["kind"].(string)
	versions, _ := spec["versions"].([]any)
	for _, entry := range versions {
		version, _ := entry.(map[string]any)
		name, _ := version["name"].(string)
		around, _ := version["schema"].(map[string]any)
		root, ok := around["openAPIV3Schema"].(map[string]any)
		gvk := schema.GroupVersionKind{Group: group, Version: name, Kind: kind}
		if all[gvk] = shape(anything{}); ok && spec["preserveUnknownFields"] != true {
			all[gvk] = openAPI{rule: root, object: true}
		}
	}
	return all
}

// openAPI is the shape that a structural schema describes. Fields that it does not name are dropped, unless
// it preserves them.
type openAPI struct {
	rule   map[string]any
	object bool // it has apiVersion, kind and metadata, too
}

// check implements shape. Only the type is checked; a schema without one, as below
// x-kubernetes-preserve-unknown-fields, accepts all.
func (s openAPI) check(value any) (wrong string, inside bool) {
	if s.rule["x-kubernetes-int-or-string"] == true {
		if typeOf(value) != "a string" && !isNumber(value) {
			return mustBe("a number or a string", value), false
		}
		return "", false
	}
	want := map[any]string{"string": "a string", "boolean": "a boolean", "object": "a map", "array": "a list", "number": "a number", "integer": "a number"}
	if w := want[s.rule["type"]]; w != "" && w != typeOf(value) {
		return mustBe(w, value), false
	}
	return "", true
}

// field implements shape. The order is that of an API server: metadata are those of Kubernetes
// whatever the schema contains, named properties win over additional ones, and other fields are pruned
// (nil) unless the schema preserves them.
func (s openAPI) field(name string) shape {
	properties, _ := s.rule["properties"].(map[string]any)
	if s.object || s.rule["x-kubernetes-embedded-resource"] == true {
		switch name {
		case "apiVersion", "kind":
			return anything{}
		case "metadata":
			return shapeOfMetadata()
		}
	}
	if below, ok := properties[name].(map[string]any); ok {
		return openAPI{rule: below}
	}
	switch additional := s.rule["additionalProperties"].(type) {
	case map[string]any:
		return openAPI{rule: additional}
	case bool:
		if additional {
			return anything{}
		}
	}
	if s.rule["x-kubernetes-preserve-unknown-fields"] == true {
		return anything{}
	}
	return nil
}

// names implements shape.
func (s openAPI) names() []string {
	properties, _ := s.rule["properties"].(map[string]any)
	return slices.Sorted(maps.Keys(properties))
}

// element implements shape.
func (s openAPI) element() shape {
	if below, ok := s.rule["items"].(map[string]any); ok {
		return openAPI{rule: below}
	}
	return anything{}
}

// shapeOfMetadata is the shape of the metadata of all objects.
func shapeOfMetadata() shape { return shapeOfType(&metav1.PartialObjectMetadata{}).field("metadata") }
