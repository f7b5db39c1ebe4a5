package apiserver

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
)

// shown is the Scale of an object. It has the version of the object, by which a client that writes
// it back finds out about a conflict.
func (s *scale) shown(u *unstructured.Unstructured) *unstructured.Unstructured {
	out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": map[string]any{}, "status": map[string]any{"replicas": int64(0)}}}
	out.SetName(u.GetName())
	out.SetNamespace(u.GetNamespace())
	out.SetUID(u.GetUID())
	out.SetResourceVersion(u.GetResourceVersion())
	out.SetCreationTimestamp(u.GetCreationTimestamp())
	if n, ok, _ := unstructured.NestedInt64(u.Object, parts(s.spec)...); ok && n != 0 {
		_ = unstructured.SetNestedField(out.Object, n, "spec", "replicas") // both are maps
	}
	if n, ok, _ := unstructured.NestedInt64(u.Object, parts(s.status)...); ok {
		_ = unstructured.SetNestedField(out.Object, n, "status", "replicas")
	}
	if text := s.selectorOf(u); text != "" {
		_ = unstructured.SetNestedField(out.Object, text, "status", "selector")
	}
	return out
}

// selectorOf is the selector as text: of a label selector, of a map of labels, or as it is. Of a
// label selector only matchLabels count.
func (s *scale) selectorOf(u *unstructured.Unstructured) string {
	if s.selector == "" {
		return ""
	}
	value, _, _ := unstructured.NestedFieldNoCopy(u.Object, parts(s.selector)...)
	switch v := value.(type) {
	case string:
		return v
	case map[string]any:
		matched, ok := v["matchLabels"].(map[string]any)
		if !ok {
			matched = v
		}
		set := labels.Set{}
		for name, label := range matched {
			set[name], _ = label.(string)
		}
		return metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: set})
	}
	return ""
}

// scaled changes the replicas of an object to what change makes of its Scale. The version that the
// client has sent goes into the object, where update compares it.
func (s *scale) scaled(change change) change {
	return func(u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		wanted, err := change(s.shown(u))
		if err != nil {
			return nil, err
		}
		n, _, err := unstructured.NestedInt64(wanted.Object, "spec", "replicas")
		if err == nil {
			err = unstructured.SetNestedField(u.Object, n, parts(s.spec)...)
		}
		u.SetResourceVersion(wanted.GetResourceVersion())
		return u, err
	}
}

// parts splits a path; keys with dots and positions in lists are not supported.
func parts(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }
