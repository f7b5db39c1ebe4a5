package e2e

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// 'values set' and 'values unset' change one value and keep all else to the byte; what the operator
// would refuse is not written, and a deleted ConfigMap comes back with all that it held. D24, P1.
func TestValuesAreSet(t *testing.T) {
	h := newFixture(t, "configmap")
	h.write("modules/values.yaml", "global: {zone: a}\n")
	h.write("cm.yaml", enabledOnlyThere)
	h.kubectl("create", "-n", h.namespace, "-f", h.path("cm.yaml"))
	h.setConfig(map[string]string{"one": "# by the team\nsize:   2 # two\n"})
	h.write("modules/020-two/openapi/config-values.yaml", "type: object\nadditionalProperties: true\nproperties:\n  licence: {type: string, x-secret: true}\n")
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
	want := map[string]string{"oneEnabled": "true", "twoEnabled": "true", "one": "# by the team\nsize: 3 # two\n"}
	expect(want)
	expectAll(t, run("values", "set", "one.size", "big"), "failed", "nothing was written", "one.size")
	expectAll(t, run("values", "unset", "one.nothing"), "unchanged")
	expect(want)

	// Several mistakes of a person can be repaired one after the other, and no new one is added.
	h.setConfig(map[string]string{"global": "zone: [", "two": "a: ]"})
	h.awaitRefusal(o)
	expectAll(t, run("values", "set", "one.size", "huge"), "failed", "nothing was written", "one.size")
	expectAll(t, run("values", "unset", "global"), "is written", "it is still refused", "key two")
	expectAll(t, run("values", "unset", "two"), "is written", "validated by the running operator")
	expect(want)

	// D41: what a schema marks is not shown, and is written to the Secret; so is what the Secret has already.
	for _, args := range [][]string{{"two.licence", "planted-1"}, {"two.licence", "planted-2"}, {"two", "{licence: planted-3}"}} {
		out := run(append([]string{"values", "set"}, args...)...)
		expectAll(t, out, "-> \"***\"", "Secret "+h.namespace+"/addon-operator is written", "validates it when it reads it")
		if strings.Contains(out, "planted") {
			t.Errorf("values set %s shows a secret:\n%s", args, out)
		}
	}
	expect(want)
	h.eventually("the Secret is known", func() error {
		if out := run("values", "unset", "two.licence", "--dry-run"); !strings.Contains(out, "Secret "+h.namespace+"/addon-operator would be written") {
			return errors.New(out)
		}
		return nil
	})
	expectAll(t, run("values", "unset", "two.licence"), "two.licence: \"***\" -> (none)", "Secret "+h.namespace+"/addon-operator is written")

	// What the operator has not seen before the deletion is no last valid content.
	expectAll(t, run("values", "set", "one.size", "4"), "one.size: 3 -> 4")
	h.awaitConfigMap("one", "size", "4")
	want["one"] = "# by the team\nsize:   4 # two\n"
	h.deleteConfigMap("addon-operator")
	h.awaitRefusal(o)
	expectAll(t, run("values", "set", "one.size", "4"), "one.size: 4 -> 4", "created again with its last valid content")
	expect(want)
	h.deleteConfigMap("addon-operator") // the operator need not know of it yet
	expectAll(t, run("values", "set", "two.password", "--string", "hunter2"), "two.password: (none) -> \"***\"", "created again with its last valid content")
	want["two"] = "password: hunter2\n"
	expect(want)
	expectAll(t, run("values", "unset", "two.password"), "two.password: \"***\" -> (none)")
	delete(want, "two")
	expect(want)
	o.terminate()

	h.deleteConfigMap("addon-operator")
	expectAll(t, run("values", "set", "one.size", "4"), "failed", "it is unknown whether", "--create")
	if out := run("values", "set", "two.licence", "planted-6", "--create", "--dry-run"); strings.Contains(out, "planted") {
		t.Errorf("without an operator a secret is shown:\n%s", out)
	}
	expectAll(t, run("values", "set", "one.size", "4", "--create"), "validated by the schemas in "+h.path("modules"))
	if got := h.config(); len(got) != 1 || strings.TrimSpace(got["one"]) != "size: 4" {
		t.Errorf("the ConfigMap is %q", got)
	}
}

// Somebody else writes between the read and the write of 'values set': it reads, edits and validates
// again, and neither edit is lost. D24.
func TestValuesSetLosesNoEditOfOthers(t *testing.T) {
	h := newFixture(t, "configmap")
	h.setConfig(map[string]string{"one": "size: 2\n"})
	var mu sync.Mutex
	checks, writes := 0, 0
	validator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "size: 3") {
			checks++
			if writes < 2 { // before it is written
				writes++
				h.setConfig(map[string]string{"one": fmt.Sprintf("size: 2\nzone: z%d\n", writes)})
			}
		}
		fmt.Fprintln(w, "{}")
	}))
	defer validator.Close()
	cmd := exec.Command(program(), "values", "set", "one.size", "3", "--namespace", h.namespace, "--debug-address", strings.TrimPrefix(validator.URL, "http://"))
	cmd.Env, cmd.Dir = append(os.Environ(), "KUBECONFIG="+h.kubeconfig), h.dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := h.config()["one"]; got != "size: 3\nzone: z2\n" || checks != 3 {
		t.Errorf("the section is %q after %d validations:\n%s", got, checks, out)
	}
}

// In the operator's Pod 'values set' needs no more than the roles that the operator has: with a running
// operator, with a deleted ConfigMap, and without an operator. B3.
func TestValuesAreSetWithTheRolesOfTheOperator(t *testing.T) {
	h := newFixture(t, "configmap")
	h.write("modules/values.yaml", "global: {zone: a}\noneEnabled: true\n")
	h.apply(h.generated(), false)
	h.become()
	o := h.start("ADDON_OPERATOR_START_WITH_LAST_VALID_CONFIG=true").ready()
	set := func(args ...string) string {
		cmd := exec.Command(program(), append([]string{"values", "set"}, args...)...)
		cmd.Env, cmd.Dir = o.env, h.dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v: %s", args, err, out)
		}
		return string(out)
	}
	expectAll(t, set("one.size", "3"), "it is new", "validated by the running operator")
	h.awaitConfigMap("one", "size", "3")
	expectAll(t, set("one.size", "4"), "one.size: 3 -> 4")
	h.awaitConfigMap("one", "size", "4")
	o.terminate()
	h.deleteConfigMap("addon-operator")
	expectAll(t, set("global.zone", "b"), "created again with its last valid content, from Secret", "validated by the schemas in "+h.path("modules"))
	if got := h.config(); strings.TrimSpace(got["one"]) != "size: 4" || strings.TrimSpace(got["global"]) != "zone: b" {
		t.Errorf("the ConfigMap is %q", got)
	}
}
