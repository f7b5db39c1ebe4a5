package scenario

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"addon-operator/kube"
)

// The schema that editors use is the one that validates.
func TestSchemaIsPublished(t *testing.T) {
	published, err := os.ReadFile("../../docs/module-test.v1.schema.json")
	must(t, err)
	if !bytes.Equal(published, schemaText) {
		t.Error("docs/module-test.v1.schema.json is not actors/scenario/module-test.v1.schema.json; copy it")
	}
}

// Every mistake is reported with its place and what to do.
func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":               {"", "the scenario"},
		"no description":        {"steps: []", "description"},
		"an unknown key":        {"description: a\nstep: []", "step: is not a known key; did you mean steps?"},
		"an unknown step":       {"description: a\nsteps: [{aply: {}}]", "steps[0].aply: is not a known key; did you mean apply?"},
		"nothing alike":         {"description: a\ngiven: {zzzzzzzzz: 1}", "given.zzzzzzzzz: is not a known key; known are clock, commands,"},
		"two steps in one":      {"description: a\nsteps: [{tick: a, retry: true}]", "steps[0]: must have at most 1"},
		"no duration":           {"description: a\nsteps: [{advance: soon}]", "steps[0].advance: must match"},
		"an empty step":         {"description: a\nsteps: [{}]", "steps[0]: must have at least 1"},
		"a wrong type":          {"description: a\nexpect: {log: a}", "expect.log: must be a list"},
		"an object that is not": {"description: a\ngiven: {objects: [{kind: a}]}", "given.objects[0].metadata: is required"},
		"a golden file outside": {"description: a\nexpect: {rendered: ../a.golden.yaml}", "expect.rendered"},
		"a key twice":           {"description: a\ndescription: b", "description"},
		"line and column":       {"description: a\nexpect:\n  hooks:\n  - {hook: a, tims: 1}", "4:15: expect.hooks[0].tims: is not a known key; did you mean times?"},
		"second document":       {"description: a\n---\ndescription: b\nstep: []", "4:1: step: is not a known key; did you mean steps?"},
		"one of several":        {"tests:\n- description: a\n- description: b\n  expct: {}", "4:3: tests[1].expct: is not a known key; did you mean expect?"},
		"steps next to tests":   {"tests: [{description: a}]\nsteps: []", "2:1: steps is next to tests; move it into a test"},
		"tests of a test":       {"tests: [{tests: [{description: a}]}]", "1:10: a test cannot have tests"},
		"a test that is none":   {"tests: [a]", "1:9: tests[0]: must be a map"},
		"no tests":              {"tests: []", "1:1: tests: must have at least 1"},
		"common part is wrong":  {"given: {valus: {}}\ntests: [{description: a}]", "1:9: given.valus: is not a known key; did you mean values?"},
		"a name twice":          {"tests: [{name: a, description: a}, {name: a, description: b}]", "1:36: another test has the name a"},
		"misspelt matcher":      {"description: a\nexpect: {values: {a: {$contain: x}}}", "2:23: expect.values.a: $contain is unknown; did you mean $contains?"},
		"matcher with others":   {"description: a\nsteps:\n- expect: {values: {a: {$regex: x, b: 1}}}", "3:25: steps[0].expect.values.a: $regex is a matcher, but there are other keys next to it"},
		"no regular expression": {"description: a\nexpect: {values: {a: {$regex: (}}}", "expect.values.a: $regex: error parsing"},
		"no jq":                 {"description: a\nexpect: {objects: [{kind: A, $count: 1, spec: {$jq: {'.a[': 1}}}]}", "expect.objects[0].spec: $jq: jq expression"},
		"no count":              {"description: a\nexpect: {values: {a: {$count: many}}}", "$count: it takes a number, not"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseBytes([]byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// Several documents, and lists of tests, are tests of their own, with names of their own.
func TestSeveralTestsInOneFile(t *testing.T) {
	results := module(t, Options{}, map[string]string{
		"values.yaml":             "a: {size: 1}\n",
		"010-a/templates/cm.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {size: {{ .Values.a.size | quote }}, x: {{ .Values.a.x | quote }}}}",
		"010-a/tests/list.yaml": `
given: {values: {a: {x: common}}}
tests:
- name: default
  description: it is 1
  expect: {objects: [{kind: ConfigMap, metadata: {name: a}, data: {size: "1", x: common}}]}
- description: many
  given: {values: {a: {size: many}}}
  expect:
    values: {a: {size: many}}
    objects: [{kind: ConfigMap, metadata: {name: a}, data: {size: many, x: common}}]
`,
		"010-a/tests/stream.yaml": "description: one\n---\nname: second\ndescription: two\nexpect: {values: {a: {size: 7}}}\n---\n",
	})
	var got []string
	for _, r := range results {
		got = append(got, fmt.Sprint(r.Scenario.Name(), " ", r.Problems))
	}
	want := `010-a/list/default []
010-a/list/2 []
010-a/stream/1 []
010-a/stream/second [expect.values: a.size must be 7, is 1]`
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("description: a\nsteps:\n- apply: [{kind: A, metadata: {name: b}}]\n- delete: {kind: A, name: b}\nexpect: {hooks: [{hook: a, fails: x}]}"))
	f.Add([]byte("description: a\nexpect: {values: {a: 1}}"))
	f.Add([]byte("given: {values: {a: {}}}\ntests:\n- {description: a}\n- {description: x}\n---\ndescription: c"))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = parseBytes(data) })
}

// Objects are found by what they hold, and counted; logs and patches can be matched, too.
func TestMatchersOfObjectsPatchesAndLogs(t *testing.T) {
	for _, r := range module(t, Options{}, map[string]string{
		"010-a/hooks/writer.sh": writer,
		"010-a/tests/a.yaml": `
tests:
- description: matches
  expect:
    objects:
    - {kind: ConfigMap, metadata: {name: {$regex: ^ma}}, $count: 1}
    - {kind: Secret, $count: 0}
    - {kind: ConfigMap, data: {by: hook}}
    hooks: [{hook: writer.sh, valuesPatch: {$contains: {path: /a/seen}}, objectPatches: {$count: 1}}]
    log: [{$not: password}, {$regex: it r.n}]
- description: fails
  expect:
    objects: [{kind: ConfigMap, data: {by: hook}, $count: 2}]
    hooks: [{hook: writer.sh, objectPatches: {$count: 2}}]
    log: [{$not: it ran}]
`,
	}) {
		fails := strings.HasSuffix(r.Scenario.Name(), "2")
		got := strings.Join(r.Problems, "\n")
		for _, want := range []string{"there must be 2 ConfigMap like it, there are 1", "objectPatches must count 2, counts 1", `the log does not match {"$not":"it ran"}`} {
			if strings.Contains(got, want) != fails {
				t.Errorf("%s\n%s", r, want)
			}
		}
	}
}

// An object with a field that its kind does not have fails the test, unless the test made it itself.
func TestStrictFields(t *testing.T) {
	const crd = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: strings.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: String, plural: strings, singular: string}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}]
`
	results := module(t, Options{}, map[string]string{
		"010-a/crds/strings.yaml": crd,
		"010-a/templates/a.yaml":  "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, dta: {a: b}}",
		"010-a/templates/b.yaml":  "{apiVersion: example.org/v1, kind: String, metadata: {name: b}, spec: {sise: 1}}",
		"010-a/hooks/writer.sh":   strings.NewReplacer("CreateOrUpdate", "CreateIfNotExists", `"data": {`, `"imutable": {`).Replace(writer),
		"010-a/tests/a.yaml": `
tests:
- description: all that is wrong is found, and once
  given: {objects: [{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: mine}, mine: {}}]}
  steps:
  - expect: {}
  - apply: {apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: also-mine}, mine: {}}
- description: nothing is looked for
  given: {strictFields: false}
`,
	})
	want := `example.org/v1 String addon-operator/b, of the release a: unknown field "spec.sise"
v1 ConfigMap addon-operator/a, of the release a: unknown field "dta"
v1 ConfigMap default/made: unknown field "imutable"`
	if got := strings.Join(results[0].Problems, "\n"); got != want {
		t.Errorf("got\n%s", got)
	}
	if !results[1].Passed() {
		t.Error(results[1])
	}
	results = module(t, Options{}, map[string]string{
		"010-a/templates/a.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: 1}}",
		"010-a/tests/a.yaml":     "description: d\ngiven: {strictFields: false}",
	})
	if got := strings.Join(results[0].Problems, ""); !strings.Contains(got, "cannot be handled as a ConfigMap: data.a: cannot unmarshal number into Go struct field ConfigMap.data of type string") {
		t.Errorf("got %s", got)
	}
}

// What is given may be of a kind that the module defines; one that nothing defines is an error.
func TestGivenObjectsOfAKindOfTheModule(t *testing.T) {
	crd := func(kind, plural string) string {
		return strings.NewReplacer("KIND", kind, "PLURAL", plural).Replace(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: PLURAL.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: KIND, plural: PLURAL}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}]
`)
	}
	results := module(t, Options{}, map[string]string{
		"010-a/crds/strings.yaml":         crd("String", "strings"),
		"020-b/chart/Chart.yaml":          "{apiVersion: v2, name: b, version: 1.0.0}",
		"020-b/chart/crds/bows.yaml":      crd("Bow", "bows"),
		"020-b/chart/templates/none.yaml": "",
		"010-a/tests/a.yaml": `
tests:
- description: of the module, and of another one
  given:
    modules: [b]
    objects:
    - {apiVersion: example.org/v1, kind: String, metadata: {namespace: default, name: s}, spec: {size: 1}}
    - {apiVersion: example.org/v1, kind: Bow, metadata: {namespace: default, name: b}}
  expect:
    modules: {a: ready, b: ready}
    objects: [{kind: String, metadata: {name: s}, spec: {size: 1}}, {kind: Bow, metadata: {name: b}}]
- description: of a module that does not play
  given: {objects: [{apiVersion: example.org/v1, kind: Bow, metadata: {namespace: default, name: b}}]}
`,
	})
	if !results[0].Passed() {
		t.Error(results[0])
	}
	if got := results[1].String(); !strings.Contains(got, "example.org/v1 Bow: there is no such kind") {
		t.Errorf("got %s", got)
	}
}

// module writes the files of a modules directory and plays its scenarios, or those of other directories next to it.
func module(t *testing.T, o Options, files map[string]string, others ...string) []Result {
	t.Helper()
	root := filepath.Join(t.TempDir(), "modules")
	for name, text := range files {
		path := filepath.Join(root, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		mode := os.FileMode(0o644)
		if strings.HasPrefix(text, "#!") {
			mode = 0o755
		}
		must(t, os.WriteFile(path, []byte(text), mode))
	}
	dirs := []string{root}
	if len(others) > 0 {
		dirs = nil
	}
	for _, other := range others {
		dirs = append(dirs, filepath.Join(root, "..", other))
	}
	found, err := Find(dirs...)
	must(t, err)
	return Play(t.Context(), found, o, nil)
}

// writer is a hook that writes what its configuration wants into all result files.
const writer = `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{"configVersion": "v1", "beforeHelm": 1, "schedule": [{"name": "often", "crontab": "* * * * * *"}]}'
  exit
fi
echo '{"op": "add", "path": "/a/seen", "value": 1}' >"$VALUES_JSON_PATCH_PATH"
echo '{"name": "seen", "set": 3, "labels": {"of": "a"}}' >"$METRICS_PATH"
cat >"$KUBERNETES_PATCH_PATH" <<EOF
{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "made"}, "data": {"by": "hook"}}}
EOF
echo "it ran"
`

// What a hook writes is applied as in a cluster; time passes only by steps.
func TestWhatHooksWrite(t *testing.T) {
	pass(t, map[string]string{
		"010-a/hooks/writer.sh": writer,
		"010-a/tests/good.yaml": `
description: everything is applied
steps:
- expect:
    hooks: [{hook: writer.sh, binding: beforeHelm, times: 1, valuesPatch: [{op: add, path: /a/seen}]}]
    values: {a: {seen: 1}}
    metrics: [{name: seen, labels: {of: a}, value: 3}]
    objects: [{kind: ConfigMap, metadata: {name: made}, data: {by: hook}}]
    log: [it ran]
    modules: {a: ready}
- tick: often
- failHook: {hook: writer.sh}
- tick: "* * * * * *"
- expect:
    hooks: [{hook: writer.sh, binding: often, times: 1, fails: true}, {hook: writer.sh, times: 1, fails: false}]
    failing: {a: the scenario makes it fail}
- retry: true
expect:
  hooks: [{hook: hooks/writer.sh, times: 1}]
`,
	})
}

// Every expectation can fail, and says where and what; so does what the scenario itself does wrong.
func TestScenariosFail(t *testing.T) {
	cases := map[string]struct{ rest, says string }{
		"hooks":     {"expect: {hooks: [{hook: writer.sh, binding: often}]}", `expect.hooks: [0] {"binding":"often","hook":"writer.sh"}: there is no such run; there were:` + "\n    010-a/hooks/writer.sh beforeHelm"},
		"times":     {"expect: {hooks: [{hook: writer.sh, times: 2}]}", "there must be 2 such runs, there are 1"},
		"patch":     {"expect: {hooks: [{hook: writer.sh, valuesPatch: []}]}", "valuesPatch must be []"},
		"values":    {"expect: {values: {a: {seen: 2}}}", "expect.values: a.seen must be 2, is 1"},
		"configmap": {"expect: {configMap: {a: {x: 1}}}", `expect.configMap: a must be {"x":1}`},
		"objects":   {"expect: {objects: [{kind: ConfigMap, metadata: {name: made}, data: {by: me}}]}", `ConfigMap made.data.by must be "me", is "hook"`},
		"no-object": {"expect: {objects: [{kind: ConfigMap, metadata: {name: other}}]}", "there is no ConfigMap other; there are [v1 ConfigMap default/made]"},
		"absent":    {"expect: {absent: [{kind: ConfigMap, name: made}]}", "there must be 0 ConfigMap made like it, there are 1: [v1 ConfigMap default/made]"},
		"metrics":   {"expect: {metrics: [{name: seen, value: 4}]}", `there is no metric like {"name":"seen","value":4}; there are:` + "\n    {"},
		"log":       {"expect: {log: [it flew]}", `the log does not match "it flew":`},
		"modules":   {"expect: {modules: {a: disabled}}", `a must be "disabled", is "ready"`},
		"failing":   {"expect: {failing: {a: x}}", `a must contain "x", is absent`},
		"refused":   {"expect: {refused: x}", `it must be refused with "x", is refused with ""`},
		"rendered":  {"expect: {rendered: none.golden.yaml}", "run the test with --update"},
		"kind":      {"given: {objects: [{apiVersion: v1, kind: Thing, metadata: {name: a}}]}", "given.objects[0]: v1 Thing: there is no such kind"},
		"namespace": {"given: {objects: [{apiVersion: v1, kind: Secret, metadata: {name: a}}]}", "add metadata.namespace"},
		"module":    {"given: {modules: [b]}", "given.modules: there is no module b"},
		"delete":    {"steps: [{delete: {kind: Secret, namespace: default, name: a}}]", "steps[0]: delete: there is no Secret default/a"},
		"tick":      {"steps: [{tick: never}]", `no hook has a schedule "never"; there are often (* * * * * *)`},
		"fails":     {"steps: [{failHook: {hook: writer.sh, times: 9}}, {tick: often}]", "expect.failing: a fails: RunHook 010-a/hooks/writer.sh"},
	}
	files := map[string]string{"010-a/hooks/writer.sh": writer}
	for name, c := range cases {
		files["010-a/tests/"+name+".yaml"] = "description: d\n" + c.rest
	}
	for _, r := range module(t, Options{}, files) {
		name := strings.TrimPrefix(r.Scenario.Name(), "010-a/")
		if got := strings.Join(r.Problems, "\n"); !strings.Contains(got, cases[name].says) {
			t.Errorf("%s: got %q, want %q", name, got, cases[name].says)
		}
	}
}

// A script that cannot be run fails every scenario of its module, though an operator would start without it.
func TestScriptWithoutItsXBit(t *testing.T) {
	results := module(t, Options{}, map[string]string{
		"010-a/enabled":          "echo true\n", // only what begins with #! is executable here
		"010-a/tests/plain.yaml": "description: d",
	})
	if got := strings.Join(results[0].Problems, "\n"); !strings.Contains(got, "010-a/enabled is not executable") {
		t.Errorf("got %q", got)
	}
}

// A hook that hangs ends the scenario with what it is about.
func TestHookThatHangs(t *testing.T) {
	t.Parallel()
	// So long a busy machine may take until the hook runs.
	results := module(t, Options{StepTimeout: 10 * time.Second}, map[string]string{
		"010-a/hooks/hangs.sh":  "#!/bin/sh\n[ \"$1\" = --config ] && echo '{\"configVersion\": \"v1\", \"beforeHelm\": 1}' || exec sleep 60\n",
		"010-a/tests/hang.yaml": "description: d",
	})
	if got := strings.Join(results[0].Problems, "\n"); !strings.Contains(got, "hangs.sh") {
		t.Errorf("got %q", got)
	}
}

// The kinds that a module brings are there for its chart, its hooks and the scenario.
func TestOwnKinds(t *testing.T) {
	pass(t, map[string]string{
		"010-a/crds/things.yaml": `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: Thing, plural: things, singular: thing}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}}]
`,
		"010-a/Chart.yaml":           "apiVersion: v2\nname: a\nversion: 0.1.0\n",
		"010-a/templates/thing.yaml": "apiVersion: example.org/v1\nkind: Thing\nmetadata: {name: one}\nspec: {size: 1}\n",
		"010-a/tests/kinds.yaml": `
description: d
steps:
- apply: {apiVersion: example.org/v1, kind: Thing, metadata: {namespace: default, name: two}}
expect:
  objects:
  - {kind: Thing, metadata: {namespace: addon-operator, name: one}, spec: {size: 1}}
  - {kind: Thing, metadata: {namespace: default, name: two}}
`,
	})
}

// allPassed wants scenarios with these names, which all passed.
func allPassed(t *testing.T, results []Result, names ...string) {
	t.Helper()
	var got []string
	for _, r := range results {
		if got = append(got, r.Scenario.Name()); !r.Passed() {
			t.Error(r)
		}
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("played %v, want %v", got, names)
	}
}

// The tests of a chart are templates, not scenarios; only tests/ of the module itself is left
// out of what the operator gets.
func TestDirectoriesCalledTests(t *testing.T) {
	allPassed(t, module(t, Options{}, map[string]string{
		"010-a/templates/tests/test-connection.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: t, annotations: {helm.sh/hook: test}}",
		"010-a/templates/tests/_word.tpl":            `{{ define "word" }}here{{ end }}`,
		"010-a/templates/a.yaml":                     "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {word: {{ include \"word\" . }}}",
		"010-a/charts/b/Chart.yaml":                  "apiVersion: v2\nname: b\nversion: 1.0.0",
		"010-a/charts/b/tests/b.yaml":                "of: another chart",
		"010-a/tests/word.yaml":                      "description: the chart is whole\nexpect: {objects: [{kind: ConfigMap, metadata: {name: a}, data: {word: here}}]}",
	}), "010-a/word")
}

// When modules cannot be discovered nothing runs; the reason is given, not only what is missing.
func TestDiscoveryThatFailsIsTold(t *testing.T) {
	const enabled = "#!/bin/sh\necho it has no license >&2\nexit 1\n"
	files := map[string]string{"010-a/enabled": enabled, "010-a/tests/a.yaml": "description: a\nexpect: {modules: {a: disabled}}"}
	results := module(t, Options{}, files)
	if text := results[0].String(); !strings.Contains(text, "expect.failing: converge fails: ") || !strings.Contains(text, "it has no license") {
		t.Errorf("it says\n%s", text)
	}
	files["010-a/tests/a.yaml"] = "description: a\nexpect: {failing: {converge: no license}}"
	allPassed(t, module(t, Options{}, files), "010-a/a")
}

// Links are followed, as when modules are loaded; what one that leads upwards shows again is not found twice.
func TestScenariosOfLinkedModules(t *testing.T) {
	root := t.TempDir()
	files := map[string]string{"elsewhere/a/tests/a.yaml": "description: a", "elsewhere/one.yaml": "description: b", "modules/020-b/tests/none.yaml": "description: c"}
	for name, text := range files {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
		must(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
	for link, target := range map[string]string{"modules/010-a": "../elsewhere/a", "modules/020-b/tests/b.yaml": "../../../elsewhere/one.yaml", "modules/020-b/up": "../..", "modules/020-b/self": ".", "modules/030-none": "nowhere", ".link": "modules"} {
		must(t, os.Symlink(target, filepath.Join(root, link)))
	}
	for _, dir := range []string{"modules", ".link"} {
		found, err := Find(filepath.Join(root, dir))
		must(t, err)
		var names []string
		for _, s := range found {
			names = append(names, s.Name())
		}
		if got := strings.Join(names, " "); got != "010-a/a 020-b/b 020-b/none" || filepath.Dir(filepath.Dir(filepath.Dir(found[0].Path()))) != filepath.Join(root, dir) {
			t.Errorf("%s: found %s", dir, got)
		}
	}
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// chart is a module whose chart has two objects, with a hook that a crontab starts.
func chart(scenario string) map[string]string {
	return map[string]string{
		"010-a/Chart.yaml":        "apiVersion: v2\nname: a\nversion: 0.1.0\n",
		"010-a/templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: two}\n",
		"010-a/hooks/h.sh": `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{"configVersion": "v1", "schedule": [{"name": "hourly", "crontab": "0 * * * *"}], "afterHelm": 1}'
  exit
fi
echo '{"operation": "CreateIfNotExists", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "made"}}}' >"$KUBERNETES_PATCH_PATH"
`,
		"010-a/tests/t.yaml": scenario,
	}
}

// A crontab that no day fits does not keep the others from firing.
func TestCrontabThatNeverFires(t *testing.T) {
	files := chart("description: a\nsteps: [{advance: 1h}]\nexpect: {hooks: [{hook: h.sh, binding: afterHelm}, {hook: h.sh, binding: hourly}]}")
	files["010-a/hooks/never.sh"] = "#!/bin/sh\necho '{\"configVersion\": \"v1\", \"schedule\": [{\"crontab\": \"0 0 30 2 *\"}]}'\n"
	pass(t, files)
}

func pass(t *testing.T, files map[string]string) {
	t.Helper()
	for _, r := range module(t, Options{}, files) {
		if !r.Passed() {
			t.Errorf("%s\n%s", r, r.Log)
		}
	}
}

// Crontabs fire when their time comes, C13.
func TestTimePasses(t *testing.T) {
	pass(t, chart(`
description: in three hours the hook runs three times
steps:
- expect: {hooks: [{hook: h.sh, binding: afterHelm, times: 1}]}
- advance: 59m
- expect: {hooks: [{hook: h.sh, times: 0}]}
- advance: 2h1m
expect:
  hooks: [{hook: h.sh, binding: hourly, times: 3, objectPatches: [{operation: CreateIfNotExists, object: {kind: ConfigMap}}]}]
`))
}

// A failed task is tried again after 5 s, 10 s, 20 s: F7.
func TestFailedTasksAreTriedAgain(t *testing.T) {
	pass(t, chart(`
description: the hook fails three times, then all is well
steps:
- failHook: {hook: h.sh, times: 3}
- tick: hourly
- advance: 4s
- expect:
    hooks: [{hook: h.sh, times: 1, fails: true}]
    failing: {a: the scenario makes it fail}
- advance: 30s
- expect:
    hooks: [{hook: h.sh, times: 2, fails: true}]
    failing: {a: the scenario makes it fail}
- advance: 1s
expect: {hooks: [{hook: h.sh, times: 1, fails: false}]}
`))
}

// Helm fails like hooks do, F7. The path of a run has /run/ in it twice when its module is called run.
func TestHelmFailsForAModuleCalledRun(t *testing.T) {
	pass(t, map[string]string{
		"010-run/Chart.yaml":        "apiVersion: v2\nname: run\nversion: 0.1.0\n",
		"010-run/templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n",
		"010-run/tests/t.yaml": `
description: Helm fails once, and is tried again
steps:
- failHelm: {}
- configMap: {run: {x: 1}}
- expect: {failing: {run: the scenario makes Helm fail}}
- advance: 5s
expect: {modules: {run: ready}}
`,
	})
}

// Objects of the release that somebody deletes come back, as often as he does it (H13).
func TestHealing(t *testing.T) {
	pass(t, chart(`
description: what is deleted comes back
steps:
- delete: {kind: ConfigMap, namespace: addon-operator, name: one}
- expect:
    objects: [{kind: ConfigMap, metadata: {name: one}}, {kind: ConfigMap, metadata: {name: two}}]
    hooks: [{hook: h.sh, times: 2, binding: afterHelm}]
    log: ["release is not as the module left it"]
- delete: {kind: ConfigMap, namespace: addon-operator, name: one}
- delete: {kind: ConfigMap, namespace: addon-operator, name: two}
expect:
  objects: [{kind: ConfigMap, metadata: {name: one}}, {kind: ConfigMap, metadata: {name: two}}]
`))
}

// caller calls programs and a server, and sees the environment and the time.
const caller = `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{"configVersion": "v1", "beforeHelm": 1, "schedule": [{"name": "hourly", "crontab": "0 * * * *"}]}'
  exit
fi
echo "secret $(vault kv get 'a b')"
echo "then $(vault kv get 'a b')"
echo '{"a": "it'"'"'s"}' | vault kv put x - || echo "put says $?"
echo "region $REGION"
echo "now $TEST_NOW, $SOURCE_DATE_EPOCH"
`

func TestStandInsForCommands(t *testing.T) {
	results := module(t, Options{}, map[string]string{
		"010-a/hooks/caller.sh": caller,
		"010-a/tests/a.yaml": `
given:
  env: {REGION: eu}
  clock: 2026-03-31T11:30:00+02:00
  commands:
    vault:
    - {args: kv get *, stdout: {data: 1}, times: 1}
    - {args: kv get *, stdout: "it's second"}
    - {args: "kv put ? -", stderr: refused, exit: 7, stdin: true}
tests:
- description: the hook sees them, and they note it
  expect:
    log: ['secret {"data":1}', then it's second, put says 7, region eu, 'now 2026-03-31T09:30:00Z, 1774949400']
    commands:
    - {command: vault, args: kv get*, times: 2}
    - {command: vault, args: [kv, put, x, {$regex: ^-$}], stdin: '{"a": "it''s"}'}
- description: all can fail
  steps:
  - expect: {}
  - advance: 1h
  - expect: {log: [now 2026-03-31T10:00:00Z]}
  - advance: 1h
  expect:
    commands:
    - {command: vault, args: kv list}
    - {command: vault, args: kv get*, times: 1}
    - {command: vault, args: kv put*, stdin: x}
- description: a call without an answer
  given: {commands: {vault: [{args: kv get *}]}}
- description: no answer
  given: {commands: {jq: {args: none}}}
`,
		"010-a/hooks/more.sh": "#!/bin/sh\n[ \"$1\" = --config ] && echo '{\"configVersion\": \"v1\", \"onStartup\": 1}' || jq a || true\n",
	})
	for i, wants := range [][]string{
		nil,
		{`expect.commands: [0] {"args":"kv list","command":"vault"}: there must`, `[1] {"args":"kv get*","command":"vault"}: there must be 1 such calls, there are 2; there were:` + "\n    vault kv get a b\n", `stdin must be "x", is "{`},
		nil,
		{"expect.commands: given.commands.jq has no answer for the call: jq a"},
	} {
		got := strings.Join(results[i].Problems, "\n")
		got = strings.ReplaceAll(got, "the most similar call differs", "there must")
		if len(wants) == 0 && !results[i].Passed() {
			t.Error(results[i], results[i].Log)
		}
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	}
}

// The work directory of a failure is kept when it is asked for, with what hooks got and wrote; that of a success is
// not.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	results := module(t, Options{Keep: true}, map[string]string{
		"010-a/hooks/writer.sh": writer,
		"010-a/tests/a.yaml":    "tests:\n- description: it passes\n- description: it fails\n  expect: {values: {a: {seen: 2}}}",
	})
	kept := results[1].Kept
	if results[0].Kept != "" || !strings.HasPrefix(kept, dir) || !strings.Contains(results[1].String(), "kept: "+kept) {
		t.Errorf("kept %q and %q", results[0].Kept, kept)
	}
	left, err := filepath.Glob(filepath.Join(dir, "scenario-*"))
	if err != nil || len(left) != 1 {
		t.Errorf("there are %v %v", left, err)
	}
	var found bool
	err = filepath.WalkDir(filepath.Join(kept, "tmp"), func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			text, _ := os.ReadFile(path)
			found = found || strings.Contains(string(text), `"path": "/a/seen"`)
		}
		return err
	})
	if err != nil || !found {
		t.Errorf("the patch of the hook is not kept: %v", err)
	}
}

// A stand-in that is killed between the number of its call and the arguments, as by a hook that
// ends, does not hide later calls. The programs that may make the number kill it right afterwards.
func TestStandInThatIsKilled(t *testing.T) {
	bin, once := t.TempDir(), filepath.Join(t.TempDir(), "killed")
	for _, name := range []string{"mkdir", "ln"} {
		path, err := exec.LookPath(name)
		must(t, err)
		text := "#!/bin/sh\n" + path + ` "$@" || exit; [ -e ` + once + ` ] || { : >` + once + "; kill -9 $PPID; }\n"
		must(t, os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755))
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	s := commands{dir: t.TempDir(), answers: map[string][]answer{"vault": {{}}}}
	must(t, s.write())
	for _, arg := range []string{"killed", "later"} {
		err := exec.Command(filepath.Join(s.bin(), "vault"), arg, "and more").Run()
		if (err != nil) != (arg == "killed") {
			t.Errorf("%s: %v", arg, err)
		}
	}
	calls := s.take()
	if len(calls) == 0 || strings.Join(calls[len(calls)-1].args, "|") != "later|and more" {
		t.Errorf("the calls are %v", calls)
	}
}

// A person who annotates or edits the ConfigMap removes nothing that it has besides.
func TestAnnotateKeepsOtherAnnotations(t *testing.T) {
	settings := NewCluster(DefaultVersion, slog.New(slog.DiscardHandler)).ConfigMap
	must(t, settings.Set(map[string]string{"a": "1"}))
	for _, change := range []func() error{
		func() error { return settings.Annotate("of/a-person", "x") },
		func() error { return settings.Annotate(kube.ConfirmPurgeAnnotation, "y") },
		func() error { return settings.Set(map[string]string{"a": "2"}) },
	} {
		must(t, change())
	}
	got, err := settings.Read(t.Context())
	if err != nil || got.ConfirmPurge != "y" || got.Data["a"] != "2" || !strings.Contains(fmt.Sprint(settings.cluster.Server.Object("v1", "ConfigMap", Namespace, ConfigMapName)), "of/a-person:x") {
		t.Errorf("the ConfigMap is %+v, %v", got, err)
	}
}
