package kube_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/kube"
)

// M1: definitions lie anywhere below crds/, also behind links, as Helm follows them; each is
// found once, hidden and filtered files are not.
func TestCRDFiles(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	for _, name := range []string{
		"crds/b.yaml", "crds/sub/c.yml", "crds/sub/d.JSON", "crds/sub/doc-c.yaml", "crds/sub/README.md", "crds/.hidden/d.yaml",
		"crds/..data/mounted.yaml", "shared/v1/e.yaml", "shared/f.yaml",
	} {
		file := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(base, "other"), 0o755); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{
		"crds/mounted.yaml": "..data/mounted.yaml", "crds/shared": "../shared", "crds/sub/up": "..", "crds/a.yaml": "../shared/f.yaml",
		"shared/back": "../crds", "other/crds": "../crds", "crds/nothing": "nowhere",
	} {
		if err := os.Symlink(filepath.FromSlash(target), filepath.Join(base, link)); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"a.yaml", "b.yaml", "mounted.yaml", "shared/f.yaml", "shared/v1/e.yaml", "sub/c.yml", "sub/d.JSON"}
	o := kube.CRDOptions{SkipPrefixes: []string{"doc-", "_"}}
	for _, dir := range []string{".", "other"} {
		files, err := kube.CRDFiles(filepath.Join(base, dir), o)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range files {
			name, err := filepath.Rel(filepath.Join(base, dir, "crds"), f)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, filepath.ToSlash(name))
		}
		if !slices.Equal(got, want) {
			t.Errorf("below %s are %q, want %q", dir, got, want)
		}
	}
	o.Ignored = func(string) (func(string) bool, error) {
		return func(file string) bool { return strings.HasPrefix(file, "crds/s") }, nil
	}
	if files, err := kube.CRDFiles(base, o); err != nil || len(files) != 3 {
		t.Errorf("without those that are ignored: %q, %v", files, err)
	}
	if files, err := kube.CRDFiles(filepath.Join(base, "none"), o); err != nil || files != nil {
		t.Errorf("a directory that is not there: %q, %v", files, err)
	}
}

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
		file := filepath.Join(t.TempDir(), "a.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := kube.Definitions(file)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, _ := unstructured.NestedString(found[0], "spec", "b", "text"); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
