package kube_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/kube"
)

// M1: definitions are read as kubectl reads them: a key may override a merged one, of a key that is there twice the last
// one counts, and JSON is read as JSON, also with what YAML lacks: an escaped slash, surrogate pairs, tabs.
func TestDefinitions(t *testing.T) {
	const yaml = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b}\nspec:\n  a: &a {text: merged}\n"
	const json = "{\n\t\"apiVersion\": \"apiextensions.k8s.io\\/v1\", \"kind\": \"CustomResourceDefinition\", \"metadata\": {\"name\": \"a.b\"},\n"
	for text, want := range map[string]string{
		yaml + "  b: {<<: *a, text: own}\n":  "own",
		yaml + "  b: {<<: *a}\n":             "merged",
		yaml + "  b: {text: 1, text: two}\n": "two",
		json + "\"spec\": {\"b\": {\"text\": \"\\ud83d\\ude00\", \"n\": 12345678901234}}}": "😀",
	} {
		found, err := kube.Definitions([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got, _, _ := unstructured.NestedString(found[0], "spec", "b", "text"); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
