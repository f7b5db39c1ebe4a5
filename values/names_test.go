package values

import "testing"

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
		"cert-2manager": `"cert2manager"`, "myModule": `"my-module"`, "HTTPProxy": `"httpproxy"`, "a.b": `"a-b"`, "module ": `"module"`,
		"": "must be words", "3scale": "must be words", "---": "must be words", "модуль": "must be words",
		"global": "reserved", "converge": "reserved", "global-hooks": "reserved", "feature-enabled": "a flag or maintenance mode", "feature-maintenance": "a flag or maintenance mode",
	} {
		_, err := Key(name)
		wantError(t, err, proposal)
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
