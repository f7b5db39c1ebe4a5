package apiserver

import (
	"encoding/base64"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

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
