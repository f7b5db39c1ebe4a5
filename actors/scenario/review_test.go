package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// asked is a hook that reviews Pods, adds a container to them, and converts.
const asked = `#!/bin/sh
if [ "$1" = --config ]; then
  cat <<END
configVersion: v1
kubernetes: [{name: registries, kind: ConfigMap, nameSelector: {matchNames: [registries]}, executeHookOnSynchronization: false, jqFilter: .data.allowed}]
kubernetesValidating:
- name: images.example.com
  includeSnapshotsFrom: [registries]
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
kubernetesMutating:
- name: sidecar.example.com
  rules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]
kubernetesCustomResourceConversion:
- crdName: things.example.com
  conversions: [{fromVersion: v1, toVersion: v2}, {fromVersion: v2, toVersion: v3}]
END
  exit
fi
context=$(cat "$BINDING_CONTEXT_PATH")
case $context in
*'"type":"Mutating"'*'"proxy":true'*) echo '{"op": "add", "path": "/a/b", "value": 1}' >"$VALUES_JSON_PATCH_PATH"
  echo '{"allowed": true}' >"$ADMISSION_RESPONSE_PATH" ;;
*'"type":"Mutating"'*) echo '{"allowed": true, "patch": [{"op": "add", "path": "/spec/containers/-", "value": {"name": "sidecar"}}]}' >"$MUTATING_RESPONSE_PATH" ;;
*'"fromVersion":"example.com/v1"'*) echo "$context" | sed 's|.*"objects":\(.*\)}}}].*|{"convertedObjects":\1}|; s|example.com/v1"|example.com/v2"|g' >"$CONVERSION_RESPONSE_PATH" ;;
*'"fromVersion":"example.com/v2"'*) echo "$context" | sed 's|.*"objects":\(.*\)}}}].*|{"convertedObjects":\1}|; s|example.com/v2"|example.com/v3"|g' >"$CONVERSION_RESPONSE_PATH" ;;
*'"image":"good/'*'"filterResult":"good"'*)
  echo '{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "seen", "namespace": "default"}}}' >"$KUBERNETES_PATCH_PATH"
  echo '{"name": "good_total", "add": 1}' >"$METRICS_PATH"
  echo '{"allowed": true, "warnings": ["'"$USER_WARNING"'old"]}' >"$VALIDATING_RESPONSE_PATH" ;;
*) echo '{"allowed": false, "message": "only images of good are allowed"}' >"$VALIDATING_RESPONSE_PATH" ;;
esac
`

// Steps ask hooks as the API server does, and compare what they answer; a difference is a problem. O1, O3, O5, O6, O7, O8
func TestStepsThatAskHooks(t *testing.T) {
	pod := func(image string) string {
		return "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: a, image: " + image + "}]}}"
	}
	thing := func(version, name string) string {
		return "{apiVersion: example.com/" + version + ", kind: Thing, metadata: {name: " + name + "}}"
	}
	results := module(t, Options{}, map[string]string{
		"010-a/hooks/asked.sh": asked,
		"020-b/hooks/asked.sh": asked,
		"030-c/hooks/one.sh":   asked,
		"030-c/hooks/two.sh":   asked,
		"010-a/tests/a.yaml": `
given: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: registries, namespace: default}, data: {allowed: good}}]}
tests:
- name: right
  description: they answer
  steps:
  - review: {binding: images.example.com, dryRun: true, object: ` + pod("good/a") + `, expect: {allowed: true}}
  - expect: {absent: [{kind: ConfigMap, namespace: default, name: seen}], hooks: [{hook: asked.sh, binding: images.example.com}]}
  - review: {binding: images.example.com, object: ` + pod("good/a") + `, expect: {allowed: true, warnings: [old]}}
  - expect: {objects: [{kind: ConfigMap, metadata: {name: seen}}], metrics: [{name: good_total, value: 2}], hooks: [{hook: asked.sh, binding: images.example.com}]}
  - review: {binding: images.example.com, object: ` + pod("bad/a") + `, expect: {allowed: false, message: {$contains: only images}}}
  - review: {binding: sidecar.example.com, object: ` + pod("x") + `, expect: {allowed: true, object: {spec: {containers: [{name: a}, {name: sidecar}]}}}}
  - review: {binding: sidecar.example.com, userInfo: {proxy: true}, expect: {error: cannot change values}}
  - convert: {crd: things.example.com, to: example.com/v3, objects: [` + thing("v1", "a") + "," + thing("v2", "b") + "," + thing("v3", "c") + `], expect: {objects: [` + thing("v3", "a") + "," + thing("v3", "b") + "," + thing("v3", "c") + `]}}
  - convert: {crd: things.example.com, to: example.com/v1, objects: [` + thing("v3", "a") + `], expect: {error: no chain of hooks converts}}
  - convert: {crd: things.example.com, to: example.com/v3, objects: [` + thing("v4", "a") + `], expect: {error: no chain of hooks converts}}
  expect: {hooks: [{hook: asked.sh, binding: images.example.com, times: 1}, {hook: asked.sh, binding: kubernetesCustomResourceConversion, times: 2}]}
- name: crd
  description: one module converts a CRD
  given: {modules: [b]}
  expect: {failing: {b: "objects of things.example.com are converted by hooks of a"}}
- name: names
  description: names are unique in a module
  given: {modules: [c]}
  expect: {failing: {c: "sidecar.example.com is a binding of 030-c/hooks/one.sh, too"}}
- name: wrong
  description: they answer something else
  steps:
  - review: {binding: images.example.com, object: ` + pod("bad/a") + `, expect: {allowed: true}}
  - review: {binding: none.example.com, expect: {allowed: true}}
  - review: {binding: images.example.com, expect: {error: x}}
`,
	})
	var got []string
	for _, r := range results {
		got = append(got, fmt.Sprint(r.Scenario.Name(), " ", strings.Join(r.Problems, "; ")))
	}
	slices.Sort(got)
	want := `010-a/a/crd 
010-a/a/names 
010-a/a/right 
010-a/a/wrong steps[0].review.expect: allowed must be true, is false; steps[1].review: it fails: no hook answers here; steps[2].review.expect.error: it does not fail`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}
