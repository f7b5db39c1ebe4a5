package kube

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// M1: what is no definition is named, with its file and what to do.
func TestCheckCRDs(t *testing.T) {
	var found []CRD
	for file, text := range map[string]string{
		"a": "{kind: ConfigMap, apiVersion: v1}",
		"b": "{kind: CustomResourceDefinition, apiVersion: apiextensions.k8s.io/v1beta1, metadata: {name: olds.example.com}}",
		"c": "{kind: CustomResourceDefinition, apiVersion: apiextensions.k8s.io/v1, metadata: [], spec: {}}",
		"d": "{kind: CustomResourceDefinition, apiVersion: apiextensions.k8s.io/v1, metadata: {name: x}}",
		"e": "{kind: CustomResourceDefinition, apiVersion: apiextensions.k8s.io/v1, metadata: {name: w, labels: {a: 1}}, spec: {}}",
		"f": "{kind: CustomResourceDefinition, apiVersion: apiextensions.k8s.io/v1, metadata: {name: z}, spec: {}}",
	} {
		object := &unstructured.Unstructured{}
		must(t, yaml.Unmarshal([]byte(text), &object.Object))
		found = append(found, CRD{file, object})
	}
	err := CheckCRDs(found)
	for _, want := range []string{
		`a: kind "ConfigMap" does not belong in crds/`, `b: apiVersion "apiextensions.k8s.io/v1beta1" of CustomResourceDefinition olds`,
		"c: CustomResourceDefinition without metadata.name", "d: CustomResourceDefinition x has no spec",
		"e: CustomResourceDefinition w: metadata.labels must be a map of strings",
	} {
		wantError(t, err, want)
	}
	if strings.Contains(err.Error(), "f: ") {
		t.Errorf("refused: %v", err)
	}
}
