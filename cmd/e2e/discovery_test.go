package e2e

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Seed 001, "Enabled script": the answer follows the values of the module; a module that it
// switches off is deleted. E6, E7, G6.
func TestEnabledScriptOfSeed001(t *testing.T) {
	h := newFixture(t, "seed001_script")
	o := h.start().ready()
	h.awaitRevisions("simple-module", "1:deployed")

	h.setConfig(map[string]string{"simpleModule": "param2: stopMePlease"})
	o.expect("modules discovered", "delete=[simple-module]")
	h.awaitRevisions("simple-module", "")
	h.awaitJournal("afterDeleteHelm")
}

// Seed 004, "Values example" and "Enabled script example". X2, X19, D17–D19.
func TestSampleOfSeed004(t *testing.T) {
	h := newFixture(t, "seed004")
	h.setConfig(map[string]string{
		"global":                 "globParam1: globalValue1\n",
		"simpleOneModule":        "param3: value_3\nparam2: newValue_1\n",
		"simpleOneModuleEnabled": "true",
	})
	o := h.start().ready()

	sameJSON(t, "VALUES_PATH", h.read("out/values.json"),
		`{"global":{"globParam1":"globalValue1", "enabledModules":["simple-one-module"]},
		  "simpleOneModule":{"param1":"value_1", "param2":"newValue_1", "param3":"value_3"}}`)
	sameJSON(t, "the context of a v0 hook", h.read("out/context.json"), `[{"binding":"beforeHelm"}]`)
	if got, want := h.daemonSetEnv(), "[globalValue1 value_1 patchedValue_2 value_3]"; got != want {
		t.Errorf("the DaemonSet has %s, want %s", got, want)
	}
	o.expect("WARN", "MODULE_ENABLED_RESULT", "answer=true")
	o.expect("WARN", "simpleOneModule.param2", "hook=001-simple-one-module/hooks/module-hooks.sh")

	// Saved patches lie above the ConfigMap, in the values of the script, too (D5).
	h.setConfig(map[string]string{"simpleOneModule": "param2: stopMePlease", "global": "globParam1: other"})
	h.eventually("the upgrade", func() error {
		if got := h.daemonSetEnv(); !strings.HasPrefix(got, "[other value_1 patchedValue_2") {
			return fmt.Errorf("the DaemonSet has %s", got)
		}
		return nil
	})
}

func (h *fixture) daemonSetEnv() string {
	h.t.Helper()
	set, err := h.client.AppsV1().DaemonSets(h.namespace).Get(h.ctx, "simple", metav1.GetOptions{})
	must(h.t, err)
	var values []string
	for _, v := range set.Spec.Template.Spec.Containers[0].Env {
		values = append(values, v.Value)
	}
	return fmt.Sprint(values)
}

// sameJSON compares documents without regard to space and the order of keys.
func sameJSON(t *testing.T, what, got, want string) {
	t.Helper()
	var a, b any
	if err := json.Unmarshal([]byte(got), &a); err != nil {
		t.Fatalf("%s: %v in %q", what, err, got)
	}
	must(t, json.Unmarshal([]byte(want), &b))
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%s is\n%s\nwant\n%s", what, got, want)
	}
}

// Seed 000, "Example": what hooks and charts see of files and ConfigMap, and what a config
// patch writes. D5, D8, D9, D14, D24, X20; G5.4.
func TestExampleOfSeed000(t *testing.T) {
	h := newFixture(t, "seed000")
	const (
		global    = "# chosen by the team of the cluster\nparam1: 200   # do not lower\n"
		leftAlone = "{a: 1,   b: [1,2]} # of a module that does not exist\n"
	)
	h.setConfig(map[string]string{
		"global":     global,
		"someModule": "param1: \"Long string\"\nparam2: \"FOO\"\n",
		"notThere":   leftAlone,
	})
	o := h.start().ready()
	h.until("the run after the patch", func() bool { return h.journal() == "run run" })

	sameJSON(t, "CONFIG_VALUES_PATH of the first run", h.read("out/1.config.json"),
		`{"global":{"param1":200}, "someModule":{"param1":"Long string", "param2":"FOO"}}`)
	sameJSON(t, "VALUES_PATH of the first run", h.read("out/1.values.json"),
		`{"global":{"param1":200, "param2":"Yes", "enabledModules":["some-module"]}, "someModule":{"param1":"Long string", "param2":"FOO"}}`)
	sameJSON(t, "CONFIG_VALUES_PATH of the next run", h.read("out/2.config.json"),
		`{"global":{"param1":200}, "someModule":{"param1":"Long string", "param2":"FOO", "param3":"newValue"}}`)
	sameJSON(t, "VALUES_PATH of the next run", h.read("out/2.values.json"),
		`{"global":{"param1":200, "param2":"Yes", "enabledModules":["some-module"]}, "someModule":{"param1":"Long string", "param2":"FOO", "param3":"newValue"}}`)

	config := h.config()
	if config["global"] != global || config["notThere"] != leftAlone {
		t.Errorf("the texts of other keys have changed: %q", config)
	}
	if want := "param1: Long string\nparam2: FOO\nparam3: newValue\n"; config["someModule"] != want {
		t.Errorf("someModule is %q, want %q", config["someModule"], want)
	}

	deployment, err := h.client.AppsV1().Deployments(h.namespace).Get(h.ctx, "some-module", metav1.GetOptions{})
	must(t, err)
	if *deployment.Spec.Replicas != 200 {
		t.Errorf("replicas: %d, want 200", *deployment.Spec.Replicas)
	}
	h.awaitRevisions("some-module", "1:superseded 2:deployed")
	sameJSON(t, "what the chart sees", h.configMap("what-the-chart-sees")["values"],
		`{"global":{"param1":200, "param2":"Yes"}, "someModule":{"param1":"Long string", "param2":"FOO", "param3":"newValue"}}`)
	if n := o.count("config values changed"); n != 0 {
		t.Errorf("the operator's own write was taken for a change, %d times", n)
	}
}
