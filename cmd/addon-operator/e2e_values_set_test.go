package main_test

import (
	"maps"
	"os/exec"
	"strings"
	"testing"
)

// 'values set' and 'values unset' change one value and keep all else to the byte; what the operator
// would refuse is not written, and a deleted ConfigMap comes back with all that it held. D24, P1.
func TestValuesAreSet(t *testing.T) {
	h := newHouse(t, "configmap")
	h.write("modules/values.yaml", "global: {zone: a}\n")
	h.write("cm.yaml", enabledOnlyThere)
	h.kubectl("create", "-n", h.namespace, "-f", h.path("cm.yaml"))
	h.setConfig(map[string]string{"one": "# by the team\nsize:   2 # two\n"})
	o := h.start().ready()
	run := func(args ...string) string {
		cmd := exec.Command(program(), args...)
		cmd.Env, cmd.Dir = o.env, h.dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			return "failed: " + string(out)
		}
		return string(out)
	}
	expect := func(want map[string]string) {
		t.Helper()
		if got := h.config(); !maps.Equal(got, want) {
			t.Errorf("the ConfigMap is %q, want %q", got, want)
		}
	}

	expectAll(t, run("values", "set", "one.size", "3", "--dry-run"), "one.size: 2 -> 3", "dry run", "validated by the running operator")
	expectAll(t, run("values", "set", "one.size", "3"), "one.size: 2 -> 3", "is written, resourceVersion")
	h.awaitConfigMap("one", "size", "3")
	want := map[string]string{"oneEnabled": "true", "twoEnabled": "true", "one": "# by the team\nsize:   3 # two\n"}
	expect(want)
	expectAll(t, run("values", "set", "one.size", "big"), "failed", "nothing is written", "one.size")
	expectAll(t, run("values", "unset", "one.nothing"), "unchanged")
	expect(want)

	h.deleteConfigMap("addon-operator")
	h.awaitRefusal(o)
	expectAll(t, run("values", "set", "two.password", "--string", "hunter2"), "two.password: (none) -> \"***\"", "created again with its last valid content")
	want["two"] = "password: hunter2\n"
	expect(want)
	expectAll(t, run("values", "unset", "two.password"), "two.password: \"***\" -> (none)")
	delete(want, "two")
	expect(want)
	o.terminate()

	h.deleteConfigMap("addon-operator")
	expectAll(t, run("values", "set", "one.size", "4"), "failed", "nobody can tell", "--create")
	expectAll(t, run("values", "set", "one.size", "4", "--create"), "validated by the schemas in "+h.path("modules"))
	if got := h.config(); len(got) != 1 || strings.TrimSpace(got["one"]) != "size: 4" {
		t.Errorf("the ConfigMap is %q", got)
	}
}
