package e2e

import (
	"fmt"
	"os"
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

// Roots may be several, relative, and hold links; what is skipped is named. A1, A3, A9–A11.
func TestSeveralRootsWithLinks(t *testing.T) {
	h := newFixture(t, "web")
	h.write("elsewhere/chart/values.yaml", "linked: {size: through a link}\n")
	h.write("elsewhere/chart/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: linked}\ndata: {size: {{ .Values.linked.size }}}\n")
	h.write("more/values.yaml", "linkedEnabled: true\nweb: {size: below that of the module}\n")
	h.write("more/500-web/values.yaml", "web: {size: second}\n")
	h.write("more/note.txt", "")
	for link, target := range map[string]string{"more/005-linked": "../elsewhere/chart", "more/dangling": "../nowhere"} {
		must(t, os.Symlink(target, h.path(link)))
	}
	o := h.start("MODULES_DIR=modules::more:", "GLOBAL_HOOKS_DIR=global-hooks").ready()
	o.expect("modules discovered", "run=[linked web]")
	h.awaitConfigMap("linked", "size", "through a link")
	h.awaitConfigMap("web", "size", "small")
	for _, name := range []string{"more/dangling", "more/note.txt", "more/500-web"} {
		if n := o.count("WARN", h.path(name)); n != 1 {
			t.Errorf("%d warnings of %s, want 1", n, name)
		}
	}
}
