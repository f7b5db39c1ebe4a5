package objectpatch

import (
	"encoding/json"
	"strings"
	"testing"
)

// K1, K2, K3: the forms in which hooks write operations.
func TestParse(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"nothing":      {"", nil},
		"only space":   {" \n\t\n", nil},
		"only comment": {"# nothing\n---\n# nothing\n", nil},
		"the sample of the docs": {`
{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "d"}, "data": {"k": "v"}}}
{"operation": "MergePatch", "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "d", "name": "web", "mergePatch": {"spec": {"replicas": 2}}, "ignoreMissingObject": true}`,
			[]string{"CreateOrUpdate v1/ConfigMap d/c", "MergePatch apps/v1/Deployment d/web"}},
		"YAML documents": {"---\noperation: Delete\nkind: Pod\nnamespace: d\nname: p\n---\noperation: DeleteInBackground\nkind: Node\nname: one\n",
			[]string{"Delete Pod d/p", "DeleteInBackground Node one"}},
		"JSON between lines of dashes":  {"{\"operation\":\"Delete\",\"kind\":\"Pod\",\"name\":\"a\"}\n---\n{\"operation\":\"Delete\",\"kind\":\"Pod\",\"name\":\"b\"}\n", []string{"Delete Pod a", "Delete Pod b"}},
		"YAML that begins like JSON":    {"{operation: Delete, kind: Pod, name: a}\n", []string{"Delete Pod a"}},
		"named next to the object, too": {`{"operation":"Create","apiVersion":"v1","kind":"Pod","namespace":"d","name":"x","object":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x","namespace":"d"}}}`, []string{"Create v1/Pod d/x"}},
		"payloads as texts": {`
operation: Create
object: |
  apiVersion: v1
  kind: ConfigMap
  metadata: {name: c, namespace: d}
---
operation: MergePatch
kind: Pod
namespace: d
name: p
subresource: /status
mergePatch: '{"status": {"phase": "Running"}}'
---
operation: JSONPatch
kind: Pod
namespace: d
name: p
jsonPatch: |
  - {op: remove, path: /metadata/labels/a~1b}
`, []string{"Create v1/ConfigMap d/c", "MergePatch Pod d/p (status)", "JSONPatch Pod d/p"}},
		"JSON with escapes that YAML lacks, as texts": {`
{"operation": "Create", "object": "{\"apiVersion\": \"v1\", \"kind\": \"ConfigMap\", \"metadata\": {\"name\": \"a\"}, \"data\": {\"k\": \"\\/\\ud83d\\ude00\"}}"}
{"operation": "MergePatch", "kind": "Pod", "name": "p", "mergePatch": "\t{\"a\": \"\\/\"}"}
{"operation": "JSONPatch", "kind": "Pod", "name": "p", "jsonPatch": "[{\"op\": \"remove\", \"path\": \"\\/a\"}]"}`,
			[]string{"Create v1/ConfigMap a", "MergePatch Pod p", "JSONPatch Pod p"}},
		"a merge key with an override": {"operation: Create\nobject:\n  apiVersion: v1\n  kind: ConfigMap\n  metadata: &m {name: a, namespace: d}\n  other: {<<: *m, name: b}\n", []string{"Create v1/ConfigMap d/a"}},
		"a generated name":             {`{"operation":"Create","object":{"kind":"Pod","metadata":{"generateName":"p-","namespace":"d"}}}`, []string{"Create Pod d/"}},
		"a filter":                     {`{"operation":"JQPatch","kind":"Pod","name":"p","namespace":"d","jqFilter":".metadata.labels.a = \"b\""}`, []string{"JQPatch Pod d/p"}},
		"a filter with functions of jq 1.6": {`{"operation":"JQPatch","kind":"Pod","name":"p","namespace":"d","jqFilter":".n = ([keys_unsorted, leaf_paths, recurse_down] | length) | debug | stderr"}`,
			[]string{"JQPatch Pod d/p"}},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			patches, err := Parse([]byte(test.text))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range patches {
				got = append(got, p.String())
			}
			if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// K1: one wrong document, and nothing is applied; the first mistake is reported.
func TestParseRefuses(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"no JSON":     {`{"operation": }`, []string{"document 1"}},
		"cut off":     {`{"operation":"Delete","kind":"Pod","name":"a"} {"op`, []string{"document 2"}},
		"no YAML":     {"a: b: c", []string{"document 1"}},
		"a key twice": {"kind: a\nkind: b", []string{`document 1: line 2: key "kind" is already set in line 1`}},
		"in JSON":     {"{\"kind\": \"a\",\n\"kind\": \"b\"}", []string{`document 1: duplicate field "kind"`}},
		"deep in JSON": {`{"operation": "MergePatch", "kind": "Pod", "name": "p", "mergePatch": {"a": [1, {"b": {"x": {}, "c": 1, "c": 2}}]}}`,
			[]string{`document 1: mergePatch: duplicate field "a[1].b.c"`}},
		"in a text of JSON": {`{"operation": "MergePatch", "kind": "Pod", "name": "p", "mergePatch": "{\"a\": 1,\n \"a\": 2}"}`,
			[]string{`document 1: mergePatch: duplicate field "a"`}},
		"a list":            {"- operation: Delete", []string{"document 1"}},
		"unknown field":     {`{"operation":"Delete","kind":"Pod","name":"a","nameSpace2":"d"}`, []string{"nameSpace2"}},
		"no operation":      {`{"kind":"Pod"}`, []string{"operation is missing"}},
		"unknown operation": {`{"operation":"Destroy"}`, []string{`unknown operation "Destroy"`}},
		"no possible names": {`{"operation":"Delete","kind":"Pod","namespace":"a/b","name":"..","subresource":"/status/../x"}`,
			[]string{`namespace "a/b": may not contain '/'`}},
		"nothing named":     {`{"operation":"Delete"}`, []string{"kind is missing"}},
		"two documents":     {"operation: Delete\n---\noperation: Create\n", []string{"document 1: kind is missing"}},
		"a useless payload": {`{"operation":"Delete","kind":"Pod","name":"a","mergePatch":{},"jqFilter":"."}`, []string{"mergePatch is not supported by Delete"}},
		"object is a list":  {`{"operation":"Create","object":[]}`, []string{"object"}},
		"object is null":    {`{"operation":"Create","object":"null"}`, []string{"object is missing"}},
		"nameless object":   {`{"operation":"CreateOrUpdate","object":{"kind":"Pod","metadata":{"generateName":"x"}}}`, []string{"object: name is missing"}},
		"odd metadata":      {`{"operation":"Create","object":{"kind":"Pod","metadata":[]}}`, []string{"object"}},
		"wrong patch":       {`{"operation":"JSONPatch","kind":"Pod","name":"a","jsonPatch":[{"op":"set","path":"a"}]}`, []string{"operation 0: unknown op set"}},
		"wrong path":        {`{"operation":"JSONPatch","kind":"Pod","name":"a","jsonPatch":[{"op":"add","path":"a"}]}`, []string{"operation 0: path a is not a JSON pointer"}},
		"no value":          {`{"operation":"JSONPatch","kind":"Pod","name":"a","jsonPatch":[{"op":"test","path":"/a","value":null},{"op":"add","path":"/a"}]}`, []string{"operation 1: value is missing"}},
		"no source":         {`{"operation":"JSONPatch","kind":"Pod","name":"a","jsonPatch":[{"op":"remove","path":"/a"},{"op":"move","path":"/a"}]}`, []string{"operation 1: from <nil> is not a JSON pointer"}},
		"odd name":          {`{"operation":"Create","object":{"kind":"Pod","metadata":{"name":5}}}`, []string{"object: ", "metadata.name"}},
		"odd label":         {`{"operation":"Create","object":{"kind":"Pod","metadata":{"name":"a","labels":{"a":5}}}}`, []string{"object: ", "metadata.labels"}},
		"patch of no shape": {`{"operation":"MergePatch","kind":"Pod","name":"a","mergePatch":[1]}`, []string{"mergePatch"}},
		"wrong filter":      {`{"operation":"JQPatch","kind":"Pod","name":"a","jqFilter":".["}`, []string{"jqFilter"}},
		"no filter":         {`{"operation":"JQPatch","kind":"Pod","name":"a"}`, []string{"jqFilter is missing"}},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			patches, err := Parse([]byte(test.text))
			if err == nil || patches != nil {
				t.Fatalf("accepted: %v", patches)
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not tell of %q", err, part)
				}
			}
		})
	}
}

func FuzzParseObjectPatches(f *testing.F) {
	for _, seed := range []string{
		"", "{", "---\n", "operation: Delete\nkind: Pod\nname: a\n",
		`{"operation":"Create","object":"kind: Pod\nmetadata: {name: a}"}`,
		`{"operation":"JSONPatch","kind":"a","name":"b","jsonPatch":[{"op":"add","path":"/a","value":1}]}`,
		`{"operation":"JQPatch","kind":"a","name":"b","jqFilter":".a=1"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		patches, err := Parse(data)
		if err != nil && patches != nil {
			t.Error("an error, and operations all the same")
		}
		for _, p := range patches {
			if p.Operation == "" || p.Kind == "" || p.String() == "" {
				t.Errorf("an operation without operation or kind: %+v", p)
			}
			if p.Data != nil && !json.Valid(p.Data) {
				t.Errorf("patch %q is no JSON", p.Data)
			}
		}
	})
}
