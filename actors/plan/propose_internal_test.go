package plan

import (
	"os"
	"path/filepath"
	"testing"

	"addon-operator/addons"
)

// D40: ConfigMap and Secret are validated together, also in a plan.
func TestPlanChecksConfigMapWithTheSecret(t *testing.T) {
	root := t.TempDir()
	for file, text := range map[string]string{
		"values.yaml":                        "webEnabled: true\n",
		"010-web/openapi/config-values.yaml": "type: object\nrequired: [password]\nproperties:\n  password: {type: string}\n",
	} {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := addons.Load(addons.Dirs{Modules: []string{root}, Global: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	sections, err := Sections(tree)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(config, secret map[string]string) error {
		_, err := (&planner{Known: Known{Reload: Reload{Tree: tree}, Sections: sections, Config: config, Secret: secret}}).propose()
		return err
	}
	if refused(nil, nil) == nil {
		t.Error("a password that is missing is accepted")
	}
	secret := map[string]string{"web": "password: x\n"}
	if err := refused(nil, secret); err != nil {
		t.Error(err)
	}
	if err := refused(map[string]string{"web": "password: 1\n"}, secret); err != nil { // the Secret is above it
		t.Error(err)
	}
}
