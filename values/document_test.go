package values

import (
	"reflect"
	"testing"
)

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
			_, err := ParseFile("modules/values.yaml", []byte(tc.text), tc.only...)
			wantError(t, err, tc.want...)
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
