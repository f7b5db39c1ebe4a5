package values

import (
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
