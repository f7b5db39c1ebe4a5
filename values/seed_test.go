package values

import (
	"slices"
	"strings"
	"testing"
)

// The samples of the document about values storage, one test each, in its order.

// "values.yaml": the module's own file is merged over the common one.
func TestSampleValuesFiles(t *testing.T) {
	common, err := ParseFile("/modules/values.yaml", []byte("global:\n  param1: value1\n  param2: value2\nsimpleModule:\n  modParam1: value3\n"))
	wantError(t, err)
	own, err := ParseFile("/modules/001-simple-module/values.yaml", []byte("simpleModule:\n  modParam1: value1\n  modParam2: value2\n"), "simpleModule")
	wantError(t, err)
	section, err := NewSection("simpleModule", nil,
		Layer{"/modules/values.yaml", common.Sections["simpleModule"]}, Layer{"/modules/001-simple-module/values.yaml", own.Sections["simpleModule"]})
	wantError(t, err)
	wantYAML(t, "merged", section.Merged(), "{modParam1: value1, modParam2: value2}")

	// "ConfigMap/addon-operator": its values override those of the files.
	config, err := ParseConfigMap(map[string]string{
		"global":        "param1: newValue\nparam3: valu3\n",
		"simpleModule":  "modParam2: newValue2\n",
		"anotherModule": "false",
	})
	wantError(t, err)
	section, err = section.WithConfig(config.Sections["simpleModule"], Origin{})
	wantError(t, err)
	wantYAML(t, "merged", section.Merged(), "{modParam1: value1, modParam2: newValue2}")
	global, err := NewSection(GlobalKey, nil, Layer{"/modules/values.yaml", common.Sections["global"]})
	wantError(t, err)
	global, err = global.WithConfig(config.Sections["global"], Origin{})
	wantError(t, err)
	wantYAML(t, "global", global.Merged(), "{param1: newValue, param2: value2, param3: valu3}")
	if on, said := config.Flags["anotherModuleEnabled"]; on || !said {
		t.Error(`"false" does not disable the module`)
	}
}

// "Example": integers, texts, the files before and after a config patch. The sample prints "YES" for "Yes", a
// misprint (X20): values are passed verbatim.
func TestSampleExample(t *testing.T) {
	global := sectionOf(t, GlobalKey, nil, "param1: 100\nparam2: \"Yes\"\n", "param1: 200\n")
	module := sectionOf(t, "someModule", nil, "param1: \"String\"\n", "param1: \"Long string\"\nparam2: \"FOO\"\n")
	both := func(global, module any) string {
		return jsonText(t, map[string]any{"global": global, "someModule": module})
	}
	if got, want := both(global.Config(), module.Config()), `{"global":{"param1":200},"someModule":{"param1":"Long string","param2":"FOO"}}`; got != want {
		t.Errorf("CONFIG_VALUES_PATH: %s", got)
	}
	if got, want := both(global.Merged(), module.Merged()), `{"global":{"param1":200,"param2":"Yes"},"someModule":{"param1":"Long string","param2":"FOO"}}`; got != want {
		t.Errorf("VALUES_PATH: %s", got)
	}

	patch, _, err := ParsePatch([]byte("  [{\"op\":\"add\", \"path\":\"/someModule/param3\", \"value\":\"newValue\"}]\n"))
	wantError(t, err)
	module, err = module.PatchConfig(patch, Origin{}, true)
	wantError(t, err)
	text, err := YAML(module.Config())
	wantError(t, err)
	if got, want := string(text), "param1: Long string\nparam2: FOO\nparam3: newValue\n"; got != want {
		t.Errorf("ConfigMap: %s", got)
	}
	if got, want := both(global.Config(), module.Config()), `{"global":{"param1":200},"someModule":{"param1":"Long string","param2":"FOO","param3":"newValue"}}`; got != want {
		t.Errorf("CONFIG_VALUES_PATH: %s", got)
	}
	if got, want := both(global.Merged(), module.Merged()), `{"global":{"param1":200,"param2":"Yes"},"someModule":{"param1":"Long string","param2":"FOO","param3":"newValue"}}`; got != want {
		t.Errorf("VALUES_PATH: %s", got)
	}
}

const sampleConfigSchema = `
type: object
additionalProperties: false
required: [project, clusterName]
minProperties: 2
properties: {project: {type: string}, clusterName: {type: string}, clusterHostname: {type: string}, discovery: {type: object}}
`

// "Validation", first example
func TestSampleValidation(t *testing.T) {
	schemas := schemasOf(t, sampleConfigSchema, "")
	invalid := sectionOf(t, GlobalKey, schemas, "", "project: myProject\n")
	wantViolations(t, invalid.ValidateConfig(), "global: must have at least 2 keys", "global.clusterName: is required")

	valid := sectionOf(t, GlobalKey, schemas, "", "project: myProject\nclusterName: c\ndiscovery: {any: {thing: 1}}\n")
	wantError(t, valid.ValidateConfig())

	// The sample's patch writes the text "{}", which a schema of type string allows; with the map that its words
	// mean, the patch is refused.
	for value, want := range map[string][]string{
		`"{}"`: nil,
		`{}`:   {"global.clusterHostname: must be a string, is a map"},
	} {
		global, flags, err := patchOf(t, `[{"op":"add", "path":"/global/clusterHostname", "value":`+value+`}]`).ForGlobal()
		wantError(t, err)
		patched, err := valid.PatchConfig(global, Origin{}, true)
		wantError(t, err)
		wantViolations(t, patched.ValidateConfig(), want...)
		if flags != nil {
			t.Error("flags from nowhere")
		}
	}
}

// The note: additionalProperties that are not set are false.
func TestSampleNote(t *testing.T) {
	schema := strings.Replace(sampleConfigSchema, "additionalProperties: false\n", "", 1)
	section := sectionOf(t, GlobalKey, schemasOf(t, schema, ""), "", "{project: p, clusterName: c, other: 1}")
	wantViolations(t, section.ValidateConfig(), "global.other: is not a known key")
}

// "Extending": the effective schema is exactly the one of the document.
func TestSampleExtending(t *testing.T) {
	config, _ := yamlTree(t, `
type: object
additionalProperties: false
required: [project, clusterName]
properties: {project: {type: string}, clusterName: {type: string}, clusterHostname: {type: string}}
`).(map[string]any)
	values, _ := yamlTree(t, `
x-extend: {schema: config-values.yaml}
type: object
additionalProperties: false
required: [discovery, param1]
properties: {discovery: {type: object}, param1: {type: string}}
`).(map[string]any)
	effective, err := extend("/global/openapi/values.yaml", values, config)
	wantError(t, err)
	wantYAML(t, "effective schema for values", effective, `
type: object
additionalProperties: false
required: [project, clusterName, discovery, param1]
properties:
  {project: {type: string}, clusterName: {type: string}, clusterHostname: {type: string}, discovery: {type: object}, param1: {type: string}}
`)
}

// "Defaults"
func TestSampleDefaults(t *testing.T) {
	values := `
x-extend: {schema: config-values.yaml}
type: object
additionalProperties: false
required: [param1]
properties: {discovery: {type: object, default: {}}, param1: {type: string}}
`
	schemas := schemasOf(t, "{type: object, properties: {project: {type: string}}}", values)
	section := sectionOf(t, GlobalKey, schemas, "", "{project: p}")
	wantYAML(t, "merged", section.Merged(), "{project: p, discovery: {}}")
	section = sectionOf(t, GlobalKey, schemas, "", "{project: p, discovery: {a: 1}}")
	wantYAML(t, "merged", section.Merged(), "{project: p, discovery: {a: 1}}")
}

// "Required fields"
func TestSampleRequiredForHelm(t *testing.T) {
	schemas := schemasOf(t, "", "{type: object, x-required-for-helm: [param1, param2], properties: {param1: {type: string}, param2: {type: string}}}")
	section := sectionOf(t, GlobalKey, schemas, "", "")
	section = patched(t, section, `{"op":"add","path":"/global/param1","value":"from one hook"}`)
	wantError(t, section.ValidateValues())
	wantViolations(t, section.ValidateForHelm(), "global.param2: is required")
	section = patched(t, section, `{"op":"add","path":"/global/param2","value":"from the other"}`)
	wantError(t, section.ValidateForHelm())
	section = patched(t, section, `{"op":"add","path":"/global/param3","value":"unknown"}`)
	wantViolations(t, section.ValidateValues(), "global.param3: is not a known key")
}

// The sample of the older document about modules: a bare operation with a dotted path (X2) must work literally.
func TestSampleOfModulesDocument(t *testing.T) {
	section := sectionOf(t, "simpleOneModule", nil, "param1: value_1\nparam2: value_2\n", "param3: value_3\nparam2: newValue_1\n")
	wantYAML(t, "VALUES_PATH", section.Merged(), "{param1: value_1, param2: newValue_1, param3: value_3}")
	patch, warnings, err := ParsePatch([]byte(`{"op": "replace", "path":"simpleOneModule.param2", "value":"patchedValue_2"}`))
	wantError(t, err)
	if !slices.ContainsFunc(warnings, func(w string) bool { return strings.Contains(w, "/simpleOneModule/param2") }) {
		t.Errorf("warnings: %q", warnings)
	}
	section, err = section.Patch(patch, Origin{})
	wantError(t, err)
	wantYAML(t, "for Helm", section.Merged(), "{param1: value_1, param2: patchedValue_2, param3: value_3}")
}
