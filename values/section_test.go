package values

import (
	"reflect"
	"sync"
	"testing"
)

func patched(t testing.TB, section *Section, text string) *Section {
	t.Helper()
	changed, err := section.Patch(patchOf(t, text), Origin{})
	wantError(t, err)
	return changed
}

// D8
func TestConfigLayer(t *testing.T) {
	section := sectionOf(t, "m", nil, "{a: 1}", "")
	wantYAML(t, "no section in the ConfigMap", section.Config(), "{}")
	if section.config != nil {
		t.Error("there is no section")
	}
	section = sectionOf(t, "m", nil, "{a: 1}", "{b: 2}")
	wantYAML(t, "config", section.Config(), "{b: 2}")
	wantYAML(t, "merged", section.Merged(), "{a: 1, b: 2}")
	if section.config == nil || section.Key() != "m" {
		t.Error("there is a section")
	}
	section, err := NewSection("m", nil, Layer{}, Layer{Value: nil})
	wantError(t, err)
	wantYAML(t, "nothing", section.Merged(), "{}")
}

// D22: saved patches are replayed over every change of the layers below, and forgotten on request (E11).
func TestSavedPatchesAreReplayed(t *testing.T) {
	section := sectionOf(t, "m", nil, "{a: {x: 1}, b: 2}", "")
	section = patched(t, section, `[{"op":"add","path":"/m/a/hook","value":1},{"op":"remove","path":"/m/b"}]`)
	wantYAML(t, "patched", section.Merged(), "{a: {x: 1, hook: 1}}")
	wantYAML(t, "config", section.Config(), "{}")

	changed, err := section.WithConfig(yamlTree(t, "{a: {x: 3, z: 4}, b: 5, c: 6}"), Origin{})
	wantError(t, err)
	wantYAML(t, "another ConfigMap", changed.Merged(), "{a: {x: 3, z: 4, hook: 1}, c: 6}")

	changed, err = section.WithConfig(yamlTree(t, "{a: null}"), Origin{})
	wantError(t, err)
	wantYAML(t, "the parent is gone", changed.Merged(), "{a: {hook: 1}}")

	if n := len(section.saved); n != 2 {
		t.Errorf("%d saved", n)
	}
	clean := changed.WithoutPatches()
	wantYAML(t, "forgotten", clean.Merged(), "{a: null, b: 2}")
	if clean.saved != nil {
		t.Error("still saved")
	}
}

// D27
func TestChecksumTellsChanges(t *testing.T) {
	section := sectionOf(t, "m", nil, "{a: 1, b: 2}", "")
	same := patched(t, section, `[{"op":"add","path":"/m/a","value":1},{"op":"replace","path":"/m/b","value":2.0}]`)
	if same.Checksum() != section.Checksum() {
		t.Error("a patch that changes nothing is a change")
	}
	if patched(t, section, `{"op":"add","path":"/m/a","value":2}`).Checksum() == section.Checksum() {
		t.Error("a change is none")
	}
}

// D24
func TestPatchConfig(t *testing.T) {
	section := sectionOf(t, "m", nil, "{a: 1}", "")
	changed, err := section.PatchConfig(patchOf(t, `{"op":"add","path":"/m/x","value":{"w":1}}`), Origin{}, true)
	wantError(t, err)
	wantYAML(t, "from nothing", changed.Config(), "{x: {w: 1}}")
	wantYAML(t, "merged", changed.Merged(), "{a: 1, x: {w: 1}}")
	if changed.saved != nil {
		t.Error("a config patch is saved in memory")
	}
	_, err = section.PatchConfig(patchOf(t, `{"op":"remove","path":"/m/a"}`), Origin{}, true)
	wantError(t, err, "there is no /m/a") // static values are not in the ConfigMap

	changed, err = changed.PatchConfig(patchOf(t, `{"op":"remove","path":"/m"}`), Origin{}, true)
	wantError(t, err)
	if changed.config != nil {
		t.Error("the removed section remains")
	}
	global := sectionOf(t, GlobalKey, nil, "", "")
	changed, err = global.PatchConfig(patchOf(t, `{"op":"add","path":"/global/x","value":1}`), Origin{}, true)
	wantError(t, err)
	wantYAML(t, "global", changed.Config(), "{x: 1}")
	_, err = global.PatchConfig(Patch{{Op: "add", Path: "/global/enabledModules", Value: []any{}, HasValue: true}}, Origin{}, true)
	wantError(t, err, "computed by the operator")
}

// D9: a schema may describe enabledModules, strictly or with a default; nothing is stored.
func TestEnabledModulesAreNeverStored(t *testing.T) {
	schemas := schemasOf(t, "{properties: {enabledModules: {type: array, default: [a]}, x: {type: integer}}}", "{properties: {enabledModules: {type: array, default: [a]}, x: {type: integer}}}")
	section := sectionOf(t, GlobalKey, schemas, "{x: 1}", "")
	wantYAML(t, "merged", section.Merged(), "{x: 1}")
	section = patched(t, section, `{"op":"add","path":"/global/x","value":2}`)
	wantError(t, section.ValidateValues())
	wantYAML(t, "merged", section.Merged(), "{x: 2}")

	strict := schemasOf(t, "", "{type: object, additionalProperties: false, properties: {x: {}}}")
	section = patched(t, sectionOf(t, GlobalKey, strict, "{x: 1}", ""), `{"op":"add","path":"/global/x","value":2}`)
	wantError(t, section.ValidateForHelm())
}

// X16: the schema of config values sees static values and ConfigMap together, with its defaults, but no patches.
func TestWhatIsValidated(t *testing.T) {
	config := "{type: object, required: [a, b], properties: {a: {type: integer}, b: {type: integer}, d: {type: integer, default: 1}}}"
	values := "{x-extend: {schema: config-values.yaml}, type: object, required: [p], properties: {p: {type: integer}}}"
	schemas := schemasOf(t, config, values)

	section := sectionOf(t, "m", schemas, "{a: 1}", "")
	wantViolations(t, section.ValidateConfig(), "m.b: is required")
	section = sectionOf(t, "m", schemas, "{a: 1}", "{b: 2}")
	wantError(t, section.ValidateConfig())
	wantViolations(t, section.ValidateValues(), "m.p: is required")
	section = patched(t, section, `{"op":"add","path":"/m/p","value":1}`)
	wantError(t, section.ValidateValues())
	wantError(t, section.ValidateConfig())

	section = patched(t, section, `{"op":"add","path":"/m/p","value":"text"}`)
	err := section.ValidateValues()
	wantError(t, err, "values of m do not fit openapi/values.yaml: m.p: must be an integer, is a string")
	static := sectionOf(t, "m", schemas, "{a: text}", "{b: 1}")
	wantViolations(t, static.ValidateConfig(), "m.a: must be an integer, is a string")
}

func TestSectionsAreSafeForReaders(t *testing.T) {
	section := sectionOf(t, "m", nil, "{a: {b: 1}}", "{c: 1}")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			sum := section.Checksum()
			changed, err := section.Patch(Patch{add(pointer{"m", "a", "x"}, "v")}, Origin{})
			if err != nil || sum != section.Checksum() || changed.Checksum() == sum || len(section.saved) != 0 {
				t.Errorf("readers disturb each other: %v", err)
			}
			if _, err := changed.WithConfig(map[string]any{}, Origin{}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

func TestSavedPatchesCannotBeChangedFromOutside(t *testing.T) {
	section := patched(t, sectionOf(t, "m", nil, "{}", ""), `{"op":"add","path":"/m/a","value":1}`)
	section.Saved(true)[0].Path = "/m/b"
	if got := section.saved[0].Path; got != "/m/a" {
		t.Errorf("saved path is %s", got)
	}
	first := patched(t, section, `{"op":"add","path":"/m/b","value":1}`)
	second := patched(t, section, `{"op":"add","path":"/m/c","value":1}`)
	if reflect.DeepEqual(first.saved, second.saved) {
		t.Error("two successors share their saved patches")
	}
}

func wantDocument(t *testing.T, got Document, sections string, flags map[string]bool, maintenance map[string]string) {
	t.Helper()
	wantYAML(t, "sections", any(got.Sections), sections)
	if len(got.Flags)+len(flags) > 0 && !reflect.DeepEqual(got.Flags, flags) {
		t.Errorf("flags: got %v, want %v", got.Flags, flags)
	}
	if len(got.Maintenance)+len(maintenance) > 0 && !reflect.DeepEqual(got.Maintenance, maintenance) {
		t.Errorf("maintenance: got %v, want %v", got.Maintenance, maintenance)
	}
}

func TestParseFile(t *testing.T) {
	for _, tc := range []struct {
		name, text  string
		only        []string
		sections    string
		flags       map[string]bool
		maintenance map[string]string
	}{
		{name: "sections are maps or lists, D1", text: "global: {a: 1}\nsomeModule: [1]\nother: {}", sections: "{global: {a: 1}, someModule: [1], other: {}}"},
		{name: "an empty file", text: "# nothing", sections: "{}"},
		{name: "an empty section is absent", text: "global:\nsomeModule:", sections: "{}"},
		{name: "flags, A7", text: "aEnabled: true\nbEnabled: 'false'\ncEnabled: no", sections: "{}", flags: map[string]bool{"aEnabled": true, "bEnabled": false, "cEnabled": false}},
		{name: "false instead of a section, X12", text: "a: 'false'\nb: false\nc: {}", sections: "{c: {}}", flags: map[string]bool{"aEnabled": false, "bEnabled": false}},
		{name: "an explicit flag is the clearer word, X12", text: "a: 'false'\naEnabled: true", sections: "{}", flags: map[string]bool{"aEnabled": true}},
		{name: "maintenance, A7, H15", text: "aMaintenance: NoResourceReconciliation", sections: "{}", maintenance: map[string]string{"aMaintenance": "NoResourceReconciliation"}},
		{name: "maintenance is taken back, H15", text: "aMaintenance: ''", sections: "{}", maintenance: map[string]string{"aMaintenance": ""}},
		{
			name: "a module's own file: the rest belongs to the chart, D5", only: []string{"someModule"},
			text:     "someModule: {a: 1}\nsomeModuleEnabled: true\nreplicaCount: 1\nimage.tag: x\nother: {b: 1}\notherEnabled: 5\nglobal: text",
			sections: "{someModule: {a: 1}}", flags: map[string]bool{"someModuleEnabled": true},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ParseFile("values.yaml", []byte(tc.text), tc.only...)
			wantError(t, err)
			wantDocument(t, got, tc.sections, tc.flags, tc.maintenance)
		})
	}
}

// A19, E5
func TestParseFileRefuses(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		only       []string
		want       []string
	}{
		{"syntax", "a: [", nil, []string{"values file modules/values.yaml: line 1"}},
		{"no map", "- a", nil, []string{"values file modules/values.yaml: must be a map of sections, is a list"}},
		{"a scalar as section", "someModule: 5", nil, []string{"key someModule: must be a map or a list, is an integer"}},
		{"true as section", "someModule: true", nil, []string{"key someModule", "someModuleEnabled: true"}},
		{"the own section has a wrong type", "someModule: text", []string{"someModule"}, []string{"key someModule"}},
		{"global is a list", "global: []", nil, []string{"key global: must be a map, is a list"}},
		{"global is false", "global: 'false'", nil, []string{"key global: must be a map, is a string"}},
		{"a flag that is no boolean", "aEnabled: 1\nbEnabled: maybe", nil, []string{"key aEnabled: must be true or false, is an integer", "key bEnabled: must be true or false, is a string"}},
		{"a mode that is no text", "aMaintenance: true", nil, []string{"key aMaintenance"}},
		{"a mode that there is not, H15", "aMaintenance: Manual", nil, []string{`values file modules/values.yaml: key aMaintenance: there is no maintenance mode "Manual"; write NoResourceReconciliation`}},
		{"kebab instead of camel", "some-module: {}", nil, []string{"key some-module", "did you mean someModule?"}},
		{"capital letter", "SomeModule: {}", nil, []string{"did you mean someModule?"}},
		{"hopeless key", "'%': {}", nil, []string{"key %: keys are"}},
		{"enabledModules, D9", "global: {enabledModules: [a]}", nil, []string{"global.enabledModules is computed by the operator"}},
		{"all of them", "a-b: {}\nc: 5\nglobal: 1", nil, []string{"key a-b", "key c", "key global"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantError(t, second(ParseFile("modules/values.yaml", []byte(tc.text), tc.only...)), tc.want...)
		})
	}
}

// D10, D11, D12, X12
func TestParseConfigMap(t *testing.T) {
	got, err := ParseConfigMap(map[string]string{
		"global": "param1: newValue\nparam3: valu3\n", "simpleModule": "modParam2: newValue2\n", "anotherModule": "false", "listModule": "- 1\n",
		"simpleModuleEnabled": "true\n", "listModuleEnabled": " false ", "emptyModule": "", "commentModule": "# nothing\n", "simpleModuleMaintenance": "NoResourceReconciliation\n",
		"quotedModule": `"false"`,
	})
	wantError(t, err)
	wantDocument(t, got,
		"{global: {param1: newValue, param3: valu3}, simpleModule: {modParam2: newValue2}, listModule: [1]}",
		map[string]bool{"anotherModuleEnabled": false, "simpleModuleEnabled": true, "listModuleEnabled": false, "quotedModuleEnabled": false},
		map[string]string{"simpleModuleMaintenance": "NoResourceReconciliation"})

	got, err = ParseConfigMap(nil)
	wantError(t, err)
	wantDocument(t, got, "{}", nil, nil)
}

func TestParseConfigMapRefuses(t *testing.T) {
	_, err := ParseConfigMap(map[string]string{
		"some-module": "a: 1", "Global": "a: 1", "module": "a: 1\n b: 2", "twice": "a: 1\na: 2", "text": "hello", "aEnabled": "yes", "bEnabled": "", "cEnabled": "TRUE", "aMaintenance": "on",
		"global": "[]", "on": "true", "good": "a: 1",
	})
	wantError(t, err,
		"ConfigMap key some-module:", "did you mean someModule?", "ConfigMap key Global:", "ConfigMap key module: ", "line 2", "ConfigMap key twice: line 2",
		"ConfigMap key text: must be a map or a list, is a string", "ConfigMap key aEnabled: must be true or false", "ConfigMap key bEnabled: must", "ConfigMap key cEnabled: must", `ConfigMap key aMaintenance: there is no maintenance mode "on"`,
		"ConfigMap key global: must be a map, is a list", "ConfigMap key on: must be a map or a list, is a boolean; to enable the module, write onEnabled: true")
	if document, _ := ParseConfigMap(map[string]string{"good": "a: 1", "Bad": ""}); document.Sections != nil {
		t.Error("a bad ConfigMap gives values")
	}
}
