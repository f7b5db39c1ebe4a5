package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/actors/scenario/match"
	"addon-operator/helm"
	"addon-operator/helm/dryrun"
	"addon-operator/values"
)

// checkRendered compares all objects of the release of the module with a golden file. It takes them
// from the cluster, so they are as the API server has stored them, with changes by hooks.
func (p *play) checkRendered(objects []map[string]any, name string) []string {
	if name == "" {
		return nil
	}
	got, err := rendered(objects, nameOf(p.scenario.unit.module))
	if err != nil {
		return []string{err.Error()}
	}
	path := filepath.Join(filepath.Dir(p.scenario.path), name)
	if p.options.Update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			return []string{err.Error()}
		}
		return nil
	}
	want, err := os.ReadFile(path)
	switch {
	case err != nil:
		return []string{fmt.Sprintf("%v; run the test with --update to write it", err)}
	case string(want) == got:
		return nil
	}
	diff := dryrun.UnifiedTexts(string(want), got, name, "rendered now")
	return []string{"the objects differ; --update rewrites the file\n" + diff}
}

// rendered are the objects of the release as documents of YAML, sorted by their text, without what
// differs from play to play and without what is the same in all of them. It changes the objects,
// which are copies.
func rendered(objects []map[string]any, release string) (string, error) {
	var documents []string
	for _, object := range objects {
		if releaseOf(object) != release {
			continue
		}
		for _, field := range [][]string{
			{"uid"}, {"resourceVersion"}, {"creationTimestamp"}, {"generation"}, {"labels", helm.MarkLabel},
			{"annotations", "meta.helm.sh/release-name"}, {"annotations", "meta.helm.sh/release-namespace"},
		} {
			unstructured.RemoveNestedField(object, append([]string{"metadata"}, field...)...)
		}
		if u := (&unstructured.Unstructured{Object: object}); len(u.GetAnnotations()) == 0 {
			u.SetAnnotations(nil)
		}
		text, err := values.YAML(object)
		if err != nil {
			return "", fmt.Errorf("%s: %w", match.Identity(object), err)
		}
		documents = append(documents, string(text))
	}
	slices.Sort(documents)
	return strings.Join(documents, "---\n"), nil
}
