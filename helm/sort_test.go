package helm

import (
	"reflect"
	"testing"

	"helm.sh/helm/v3/pkg/releaseutil"
)

// Documents that are parsed once are sorted as Helm sorts them, with all that it reads of their heads, and refused
// with its words.
func TestSortedAsByHelm(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"kinds and hooks": {
			"c/templates/b.yaml": "kind: Deployment\napiVersion: apps/v1\nmetadata: {name: d}\n---\nkind: Namespace\napiVersion: v1\nmetadata: {name: n}\n",
			"c/templates/a.yaml": "# comment # 7\nkind: Job\nmetadata:\n  name: j\n  annotations: {helm.sh/hook: 'pre-install, Post-Upgrade', helm.sh/hook-weight: 5, helm.sh/hook-delete-policy: 'hook-failed,before-hook-creation'}\n",
			"c/templates/_x.tpl": "nothing: [",
			"c/templates/e.yaml": "  \n",
		},
		"unknown hook":           {"a.yaml": "kind: A\nmetadata: {name: a, annotations: {helm.sh/hook: crd-install}}\n---\nkind: B\n"},
		"numbers as texts":       {"a.yaml": "kind: 5\napiVersion: 1.0\nmetadata: {name: 0123, annotations: {a: true, b: null, c: 1e3}}\n"},
		"other cases":            {"a.yaml": "Kind: A\nkind: B\nMetadata: {Name: a, ANNOTATIONS: {helm.sh/hook: test}}\n"},
		"no objects":             {"a.yaml": "text\n---\n[1, 2]\n---\nnull\n---\n# only a comment\n---\n5\n"},
		"metadata is a list":     {"a.yaml": "kind: A\nmetadata: [1]\n"},
		"annotations are a list": {"a.yaml": "kind: A\nmetadata: {annotations: [1]}\n"},
		"broken":                 {"a.yaml": "kind: A\n", "b.yaml": "kind: [\n"},
		"separators":             {"a.yaml": "---\n---\nkind: A\n--- # x\nkind: B\n---\n"},
		"keys that are twice":    {"a.yaml": "kind: A\nkind: B\nmetadata: {name: a, name: b}\n"},
		"a mark in a text":       {"a.yaml": "kind: A\nmetadata: {name: \"a # 9\"}\ntext: x # 3"},
	} {
		t.Run(name, func(t *testing.T) {
			hooks, manifests, wantErr := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
			got, err := sortFiles(files)
			if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
				t.Fatalf("error %v, Helm has %v", err, wantErr)
			}
			if err != nil {
				return
			}
			if !reflect.DeepEqual(got.hooks, hooks) || !reflect.DeepEqual(got.manifests, manifests) {
				t.Errorf("%s\n%s\nHelm has\n%s\n%s", jsonOf(got.hooks), jsonOf(got.manifests), jsonOf(hooks), jsonOf(manifests))
			}
			for i, m := range manifests {
				if want := parse(m.Content); !reflect.DeepEqual(got.parsed[i].objects, want.objects) || len(got.parsed[i].errs) != len(want.errs) {
					t.Errorf("objects %v, %v; want %v, %v", got.parsed[i].objects, got.parsed[i].errs, want.objects, want.errs)
				}
			}
		})
	}
}
