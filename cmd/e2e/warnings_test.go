package e2e

import (
	"testing"
)

// What the API server warns of, such as a misspelt field, names the release when Helm writes it, and the object when a
// hook does. J13.
func TestWarningsOfTheAPIServer(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
oddEnabled: true
-- modules/010-odd/templates/a.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: odd}
datta: {size: {{ .Values.odd.size | quote }}}
-- modules/010-odd/hooks/h.sh --
#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then echo '{"configVersion": "v1", "onStartup": 1}'; exit; fi
echo '{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "patched", "namespace": "'$NAMESPACE'"}, "dataa": {}}}' > "$KUBERNETES_PATCH_PATH"
`)
	o := h.start()
	o.expect("WARN warning of the API server", `unknown field "dataa"`, "patch=CreateOrUpdate v1/ConfigMap "+h.namespace+"/patched", "hook=010-odd/hooks/h.sh", "module=odd")
	o.expect("WARN the API server returned a warning", `unknown field "datta"`, "release=odd")
	o.ready()
	for _, field := range []string{"dataa", "datta"} {
		if n := o.count(`unknown field "` + field + `"`); n != 1 {
			t.Errorf("%s is logged %d times, want once", field, n)
		}
	}
}
