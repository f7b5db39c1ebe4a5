package main_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const reloadJournal = "beforeAll one two afterAll"

// What a person changes decides what is done again. G16, D14, D15, F9.
func TestConfigMapIsEdited(t *testing.T) {
	h := newHouse(t, "configmap")
	o := h.start().ready()
	h.awaitJournal(reloadJournal)

	journal := reloadJournal
	edit := func(what string, texts map[string]string, does string) {
		t.Helper()
		h.setConfig(texts)
		o.expect("config values changed")
		journal = strings.TrimSpace(journal + " " + does)
		h.eventually(what, func() error {
			if got := h.journal(); got != journal {
				return fmt.Errorf("the journal is %q, want %q", got, journal)
			}
			return nil
		})
	}
	edit("a module's section", map[string]string{"one": "size: 2"}, "one")
	h.awaitConfigMap("one", "size", "2")
	edit("the global section", map[string]string{"global": "zone: b"}, reloadJournal)
	h.awaitConfigMap("one", "zone", "b")
	edit("sections of both modules", map[string]string{"one": "size: 3", "two": "any: thing"}, "one two")
	edit("a flag", map[string]string{"twoEnabled": "false"}, "beforeAll one afterAll")
	edit("everything", map[string]string{"global": "zone: c", "one": "size: 4", "twoEnabled": ""}, reloadJournal)
	h.awaitConfigMap("one", "size", "4")

	if err := h.client.CoreV1().ConfigMaps(h.namespace).Delete(h.ctx, "addon-operator", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.awaitJournal(journal + " " + reloadJournal)
	h.awaitConfigMap("one", "size", "1")
	h.awaitConfigMap("one", "zone", "a")
}

// An invalid ConfigMap is refused as a whole while the operator runs; it says what is
// wrong until that is mended. D16, D36, D38.
func TestInvalidConfigMapIsRefused(t *testing.T) {
	h := newHouse(t, "configmap")
	h.setConfig(map[string]string{"one": "size: 2"})
	o := h.start().ready()

	h.setConfig(map[string]string{"one": "size: hunter2\nteir: gold", "global": "zone: b"})
	line := o.expect("ERROR", "the ConfigMap is refused")
	expectAll(t, line, "one.size", "one.teir")
	if strings.Contains(line, "hunter2") {
		t.Errorf("a value is in the log: %s", line)
	}
	if _, body := get(o.public + "/metrics"); !strings.Contains(body, "addon_operator_config_values_errors_total 1\n") {
		t.Error("config_values_errors_total is not 1")
	}
	h.eventually("the refusal in /readyz?verbose", func() error {
		if _, body := get(o.public + "/readyz?verbose"); !strings.Contains(body, "REFUSED") {
			return fmt.Errorf("it says %s", body)
		}
		return nil
	})

	h.setConfig(map[string]string{"one": "size: 3"})
	o.expect("config values changed", "global=true", "modules=[one]")
	h.awaitJournal(reloadJournal + " " + reloadJournal)
	h.awaitConfigMap("one", "size", "3")
	h.awaitConfigMap("one", "zone", "b")

	h.setConfig(map[string]string{"bad-key": "a: b", "one": "size: 4", "twoEnabled": "perhaps", "global": "zone: [b"})
	expectAll(t, o.expect("ERROR", "the ConfigMap is refused"), "bad-key", "badKey", "twoEnabled", "must be true or false", "global", "line 1")
	h.setConfig(map[string]string{"bad-key": "", "one": "size: 3", "twoEnabled": "", "global": "zone: b"})
	o.expect("the ConfigMap has its last valid content again")
	h.awaitJournal(reloadJournal + " " + reloadJournal)
}

// At the start the operator refuses to run with invalid values. D16, D36.
func TestInvalidConfigMapAtTheStart(t *testing.T) {
	h := newHouse(t, "configmap")
	h.setConfig(map[string]string{"one": "size: 0", "global": "zone: 3\nregion: x"})
	o := h.start()
	if code := o.exit(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	expectAll(t, strings.Join(o.output.lines(), "\n"), "one.size", "global.zone", "global.region", "ConfigMap",
		h.path("global-hooks/openapi/config-values.yaml"), h.path("modules/010-one/openapi/config-values.yaml"))
	if h.journal() != "" {
		t.Errorf("hooks were run: %s", h.journal())
	}
}

// Without a ConfigMap there are only static values; the first config patch creates it.
// D13, D24, D25.
func TestMissingConfigMapIsCreatedByAConfigPatch(t *testing.T) {
	h := newHouse(t, "configmap")
	h.start().ready().terminate()
	if h.config() != nil {
		t.Fatal("the operator made a ConfigMap for nothing")
	}
	h.write("global-hooks/hooks/save.sh", `#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then echo '{"configVersion": "v1", "onStartup": 1}'; exit; fi
cat > "$CONFIG_VALUES_JSON_PATCH_PATH" <<END
{"op": "add", "path": "/global/zone", "value": "saved"}
{"op": "add", "path": "/twoEnabled", "value": false}
END
`)
	o := h.start().ready()
	h.awaitConfigMap("addon-operator", "global", "zone: saved\n")
	h.awaitConfigMap("addon-operator", "twoEnabled", "false")
	h.awaitConfigMap("one", "zone", "saved")
	h.eventually("the journal of the hooks", func() error {
		// The watch may tell of the ConfigMap in the middle of the reload, which then starts again.
		again := o.count("reload of all modules starts again")
		want := fmt.Sprintf("^%s( beforeAll( one)?){%d} beforeAll one afterAll$", reloadJournal, again)
		if got := h.journal(); !regexp.MustCompile(want).MatchString(got) {
			return fmt.Errorf("is %q, want %s", got, want)
		}
		return nil
	})
}

// The values of a disabled module are not looked at; when a hook enables it, they hold
// this module only, and not the process. D37.
func TestInvalidValuesOfAModuleThatAHookEnables(t *testing.T) {
	h := newHouse(t, "configmap")
	h.write("modules/values.yaml", "global: {zone: a}\ntwoEnabled: true\n")
	h.write("global-hooks/hooks/enable.sh", `#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then echo '{"configVersion": "v1", "onStartup": 1}'; exit; fi
echo '[{"op": "add", "path": "/oneEnabled", "value": true}]' > "$VALUES_JSON_PATCH_PATH"
`)
	h.setConfig(map[string]string{"one": "size: big"})
	o := h.start()
	expectAll(t, o.expect("ERROR", "will retry", "module=one"), "one.size", h.path("modules/010-one/openapi/config-values.yaml"))
	h.setConfig(map[string]string{"one": "size: 5"})
	o.ready()
	h.awaitConfigMap("one", "size", "5")
}
