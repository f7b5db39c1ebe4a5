package values

import (
	"testing"
)

// A6, A7
func TestKey(t *testing.T) {
	for name, want := range map[string]string{
		"nginx-ingress": "nginxIngress", "simple-one-module": "simpleOneModule", "module": "module", "module2": "module2",
		"a-b-c": "aBC", "l2-balancer": "l2Balancer", "x509": "x509", "enabled": "enabled", "global-things": "globalThings",
	} {
		key, err := Key(name)
		wantError(t, err)
		if key != want {
			t.Errorf("%s: got %s, want %s", name, key, want)
		}
		if camelToName(key) != name {
			t.Errorf("%s does not come back from %s: %s", name, key, camelToName(key))
		}
		if !isKey(key) {
			t.Errorf("%s is not taken for a key", key)
		}
	}
}

func TestKeyRefuses(t *testing.T) {
	for name, proposal := range map[string]string{
		"module-2": `"module2"`, "MyModule": `"my-module"`, "my_module": `"my-module"`, "my--module": `"my-module"`, "-module-": `"module"`,
		"cert-2manager": `"cert2manager"`, "myModule": `"my-module"`, "HTTPProxy": `"http-proxy"`, "a.b": `"a-b"`, "module ": `"module"`,
		"": "must be words", "3scale": "must be words", "---": "must be words", "модуль": "must be words",
		"global": "reserved", "converge": "reserved", "global-hooks": "reserved", "feature-enabled": "a flag or maintenance mode", "feature-maintenance": "a flag or maintenance mode",
	} {
		wantError(t, second(Key(name)), proposal)
	}
}

// A6: two names never share a key, since each comes back from its key.
func TestKeyIsReversible(t *testing.T) {
	letters := []byte("ab1-")
	var walk func(name []byte)
	seen := map[string]string{}
	walk = func(name []byte) {
		if key, err := Key(string(name)); err == nil {
			if other, twice := seen[key]; twice {
				t.Errorf("%s and %s are both %s", name, other, key)
			}
			seen[key] = string(name)
		}
		if len(name) == 6 {
			return
		}
		for _, c := range letters {
			walk(append(name[:len(name):len(name)], c))
		}
	}
	walk(nil)
	if len(seen) < 100 {
		t.Errorf("only %d names are accepted", len(seen))
	}
}

func TestFlagAndMaintenanceKeys(t *testing.T) {
	if got := FlagKey("someModule"); got != "someModuleEnabled" {
		t.Error(got)
	}
	if got := MaintenanceKey("someModule"); got != "someModuleMaintenance" {
		t.Error(got)
	}
	for key, want := range map[string]bool{
		"someModuleEnabled": true, "enabledEnabled": true, "Enabled": false, "globalEnabled": false, "someModule": false,
		"someModuleEnabledEnabled": false, "some-moduleEnabled": false, "enabled": false, "aMaintenance": false,
	} {
		if got := isFlag(key); got != want {
			t.Errorf("%s: got %v", key, got)
		}
	}
	if !isMaintenance("aMaintenance") || isMaintenance("aEnabled") {
		t.Error("modes are not recognized")
	}
}

func TestListIndex(t *testing.T) {
	for text, want := range map[string]int{"0": 0, "1": 1, "10": 10, "123456789": 123456789} {
		if got, ok := listIndex(text); !ok || got != want {
			t.Errorf("%s: %d, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "-", "-1", "+1", "01", "1.0", "a", "1234567890", " 1", "٣"} {
		if index, ok := listIndex(text); ok {
			t.Errorf("%q is taken for %d", text, index)
		}
	}
}

// D23
func TestPositionalPaths(t *testing.T) {
	for path, above := range map[string]string{
		"/m":              "/m",
		"/m/a/b":          "/m/a/b",
		"/m/list/-":       "/m/list",
		"/m/list/0/name":  "/m/list",
		"/m/a/8080/b/0":   "/m/a",
		"/0":              "",
		"/m/a-/-b/1a/a1":  "/m/a-/-b/1a/a1",
		"/m/01/a":         "/m/01/a",
		"/m/~1/~0/-/x":    "/m/~1/~0",
		"/m/list/12/13/-": "/m/list",
	} {
		if got := aboveLists(path); got != above {
			t.Errorf("%s: got %s, want %s", path, got, above)
		}
	}
}

func TestDotted(t *testing.T) {
	tree := map[string]any{"someModule": map[string]any{"a": map[string]any{"b": []any{"x", map[string]any{"odd key": map[string]any{"0": int64(1)}}}}}}
	for want, path := range map[string]pointer{
		"someModule":                       {"someModule"},
		"someModule.a.b[1]":                {"someModule", "a", "b", "1"},
		`someModule.a.b[1]["odd key"]`:     {"someModule", "a", "b", "1", "odd key"},
		`someModule.a.b[1]["odd key"].0`:   {"someModule", "a", "b", "1", "odd key", "0"},
		`someModule.missing["x.y/z"].deep`: {"someModule", "missing", "x.y/z", "deep"},
		`someModule[""]`:                   {"someModule", ""},
	} {
		if got := Dotted(tree, path); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
