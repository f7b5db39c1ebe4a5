package fields

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const things = `
spec:
  group: example.org
  names: {kind: Thing}
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer}
              port: {x-kubernetes-int-or-string: true}
              labels: {type: object, additionalProperties: {type: string}}
              free: {type: object, x-kubernetes-preserve-unknown-fields: true}
              list: {type: array, items: {type: object, properties: {a: {type: string}}}}
              pod: {type: object, x-kubernetes-embedded-resource: true, properties: {spec: {type: object}}}
  - name: v2
`

func read(t *testing.T, text string) (object map[string]any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return object
}

// Fields that do not exist and values of another type are found, with their place; all else is left alone.
func TestCheck(t *testing.T) {
	c := New(read(t, things))
	for name, tc := range map[string]struct{ object, want string }{
		"fine":                {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {a: b}}, data: {a: b}, binaryData: {a: YQ==}}", ""},
		"dta":                 {"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, dta: {}}", `unknown field "dta"`},
		"number in data":      {"{apiVersion: v1, kind: ConfigMap, data: {a: 1}}", "data.a: cannot unmarshal number into Go struct field ConfigMap.data of type string"},
		"deep":                {"{apiVersion: apps/v1, kind: Deployment, spec: {template: {spec: {containers: [{name: a, imge: b}]}}}}", `unknown field "spec.template.spec.containers[0].imge"`},
		"string for a number": {`{apiVersion: apps/v1, kind: Deployment, spec: {replicas: "3"}}`, "spec.replicas: cannot unmarshal string into"},
		"fraction":            {`{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1.5}}`, "spec.replicas: cannot unmarshal number 1.5 into"},
		"int or string":       {"{apiVersion: v1, kind: Service, spec: {ports: [{port: 80, targetPort: http}, {port: 81, targetPort: 8080}]}}", ""},
		"neither":             {"{apiVersion: v1, kind: Service, spec: {ports: [{port: 80, targetPort: {}}]}}", "spec.ports[0].targetPort: cannot unmarshal object"},
		"quantity":            {"{apiVersion: v1, kind: Pod, spec: {containers: [{resources: {limits: {memory: 1Gi, cpu: 1, x: 1 GB}}}]}}", "spec.containers[0].resources.limits.x: quantities must match"},
		"embedded":            {"{apiVersion: v1, kind: Pod, spec: {volumes: [{name: a, emptyDir: {}}, {name: b, configMap: {name: c}}, {emptydir: {}}]}}", `unknown field "spec.volumes[2].emptydir"`},
		"list for a map":      {"{apiVersion: v1, kind: ConfigMap, data: []}", "data: cannot unmarshal array"},
		"map for a list":      {"{apiVersion: v1, kind: Pod, spec: {containers: {}}}", "spec.containers: cannot unmarshal object"},
		"boolean":             {"{apiVersion: v1, kind: ConfigMap, immutable: 'yes'}", "immutable: cannot unmarshal string"},
		"null":                {"{apiVersion: v1, kind: ConfigMap, data: null, dta: null}", `unknown field "dta"`},
		"time":                {"{apiVersion: v1, kind: ConfigMap, metadata: {creationTimestamp: soon}}", "metadata.creationTimestamp: parsing time"},
		"base64":              {`{apiVersion: v1, kind: Secret, data: {a: "1 2"}}`, "data.a: illegal base64"},
		"definition":          {"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: {versions: [{schema: {openAPIV3Schema: {properties: {a: {type: string, default: 1, minium: 1}}}}}]}}", `unknown field "spec.versions[0].schema.openAPIV3Schema.properties.a.minium"`},
		"annotation":          {`{apiVersion: v1, kind: ConfigMap, metadata: {annotations: {a.b/c: true}}}`, "metadata.annotations.a.b/c: cannot unmarshal bool"},
		"unknown kind":        {"{apiVersion: example.org/v3, kind: Thing, spec: {sise: 1}}", ""},
		"no schema":           {"{apiVersion: example.org/v2, kind: Thing, spec: {sise: 1}}", ""},
		"thing":               {"{apiVersion: example.org/v1, kind: Thing, metadata: {name: a}, spec: {size: 1, port: http, labels: {a: b}, free: {a: {b: 1}}, list: [{a: b}], pod: {kind: A, metadata: {name: x}}}}", ""},
		"unknown in a thing":  {"{apiVersion: example.org/v1, kind: Thing, metadata: {nme: a}, spec: {sise: 1}}", `unknown field "metadata.nme"`},
		"in a list":           {"{apiVersion: example.org/v1, kind: Thing, spec: {list: [{b: 1}]}}", `unknown field "spec.list[0].b"`},
		"wrong type":          {"{apiVersion: example.org/v1, kind: Thing, spec: {size: many}}", "spec.size: must be of type number, is string"},
		"wrong label":         {"{apiVersion: example.org/v1, kind: Thing, spec: {labels: {a: 1}}}", "spec.labels.a: must be of type string, is number"},
		"embedded metadata":   {"{apiVersion: example.org/v1, kind: Thing, spec: {pod: {metadata: {nme: a}}}}", `unknown field "spec.pod.metadata.nme"`},
		"null in a thing":     {"{apiVersion: example.org/v1, kind: Thing, spec: {size: null, list: null}}", ""},
		"wrong port":          {"{apiVersion: example.org/v1, kind: Thing, spec: {port: []}}", "spec.port: must be of type number or string, is array"},
	} {
		var got []string
		for _, p := range c.Check(read(t, tc.object)) {
			got = append(got, p.String())
		}
		text := strings.Join(got, "\n")
		if (tc.want == "") != (text == "") || !strings.HasPrefix(text, tc.want) {
			t.Errorf("%s: got %q, want %q", name, text, tc.want)
		}
	}
}

// The problems of an object are bounded.
func TestCheckIsBounded(t *testing.T) {
	data := map[string]any{}
	for i := range 1000 {
		data[strings.Repeat("a", i+1)] = int64(1)
	}
	if got := len(New().Check(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": data})); got != mostProblems {
		t.Errorf("%d problems", got)
	}
}
