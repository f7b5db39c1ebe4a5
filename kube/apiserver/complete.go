package apiserver

import (
	"encoding/base64"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// completeKind does what the API server, or a controller of the cluster, does to objects
// of some kinds and what hooks and Helm rely on.
func completeKind(k *kind, u *unstructured.Unstructured) {
	_, helmHook := u.GetAnnotations()["helm.sh/hook"]
	switch k.resource().String() {
	case "namespaces":
		labels := u.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["kubernetes.io/metadata.name"] = u.GetName()
		u.SetLabels(labels)
		setDefault(u, "Active", "status", "phase")
		if u.GetDeletionTimestamp() == nil { // the one that clears the namespace away
			_ = unstructured.SetNestedStringSlice(u.Object, []string{"kubernetes"}, "spec", "finalizers")
		}
	case "secrets":
		foldStringData(u)
		setDefault(u, "Opaque", "type")
	case "customresourcedefinitions.apiextensions.k8s.io":
		u.Object["status"] = established(u)
	case "jobs.batch":
		if helmHook {
			u.Object["status"] = map[string]any{"succeeded": int64(1), "conditions": []any{map[string]any{"type": "Complete", "status": "True"}}}
		}
	case "pods":
		if helmHook {
			u.Object["status"] = map[string]any{"phase": "Succeeded"}
		}
	}
}

func setDefault(u *unstructured.Unstructured, value string, fields ...string) {
	if old, _, _ := unstructured.NestedString(u.Object, fields...); old == "" {
		_ = unstructured.SetNestedField(u.Object, value, fields...) // a text is no map: nothing can be set in it
	}
}

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

func established(u *unstructured.Unstructured) map[string]any {
	var stored []any
	versions, _, _ := unstructured.NestedSlice(u.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if storage, _ := version["storage"].(bool); storage {
			stored = append(stored, version["name"])
		}
	}
	names, _, _ := unstructured.NestedMap(u.Object, "spec", "names")
	return map[string]any{
		"acceptedNames": names, "storedVersions": stored,
		"conditions": []any{
			map[string]any{"type": "NamesAccepted", "status": "True"},
			map[string]any{"type": "Established", "status": "True"},
		},
	}
}
