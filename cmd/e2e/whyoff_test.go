package e2e

import (
	"testing"
)

// Why a module is off, and which rule has decided it, is shown by why, by the list of modules, by the log and on
// the page. A flag that belongs to no module is named, with the one that was probably meant. E16.
func TestWhyAModuleIsOff(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
wellEnabled: true
fileEnabled: false
scriptEnabled: true
tpyoEnabled: true
-- modules/010-well/README.md --
-- modules/020-file/README.md --
-- modules/030-config/README.md --
-- modules/040-script/enabled --
#!/usr/bin/env bash
echo "it needs a load balancer" > "$MODULE_ENABLED_REASON"
echo false > "$MODULE_ENABLED_RESULT"
-- modules/050-typo/README.md --
-- modules/060-broken/enabled --
#!/usr/bin/env bash
echo "no such cluster" >&2
exit 4
`)
	h.setConfig(map[string]string{"configEnabled": "false", "typpoEnabled": "true"})
	o := h.start()
	o.expect("WARN", "values.yaml has the flag tpyoEnabled", "did you mean typoEnabled?")
	o.expect("WARN", "the ConfigMap has a flag", "typpoEnabled", "didYouMean=typoEnabled")
	o.ready()
	file := "fileEnabled is false in values.yaml"
	script, typo := "its enabled script returned false: it needs a load balancer", "no flag anywhere (typoEnabled)"
	expectAll(t, o.expect("modules discovered", "run=[well]"), file, "configEnabled is false in the ConfigMap", script, typo)
	o.ask("why file", "module file is off: "+file)
	o.ask("why config", "module config is off: configEnabled is false in the ConfigMap")
	o.ask("why script", "module script is off: "+script)
	o.ask("why typo", "module typo is off: "+typo)
	o.ask("why well", "because of OperatorStartup")
	o.ask("module list", "WHY-OFF", script, typo)
	o.ask("why broken -o json", `"off": "no flag anywhere (brokenEnabled); 'addon-operator values set brokenEnabled true' enables it"`)
	_, page := get(o.public + "/")
	expectAll(t, page, "off: "+script, "off: "+typo)

	h.setConfig(map[string]string{"configEnabled": "true", "brokenEnabled": "true"})
	o.expect("task failed, will retry", "DiscoverModules")
	o.ask("why broken", "module broken: failing: the discovery fails: hook broken/enabled: exit code 4: no such cluster")
	o.ask("why config", "module config: failing: the discovery fails: hook broken/enabled")
	o.ask("why file", file)
}
