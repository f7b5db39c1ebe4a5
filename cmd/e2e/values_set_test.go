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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		out, err := o.run("", args...)
		if err != nil {
			return "failed: " + out
		}
		return out
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
	// Typos do not succeed: a module or a key that does not exist. D12.
	expectAll(t, run("values", "unset", "one.tierr"), "failed", "nothing was written: the ConfigMap has no value at one.tierr")
	expectAll(t, run("values", "unset", "one.tier", "--force"), "unchanged")
	expectAll(t, run("values", "set", "one.tierr", "a"), "failed", "nothing was written", "one.tierr: is not a known key")
	for _, args := range [][]string{{"set", "twoo.a", "1"}, {"set", "twooEnabled", "true"}, {"unset", "twoo.a"}, {"unset", "twoo"}} {
		expectAll(t, run(append([]string{"values"}, args...)...), "failed", "nothing was written: no module twoo; did you mean two?; --force writes it")
	}
	expectAll(t, run("values", "set", "one-two.a", "1"), "failed", "nothing was written: no module one-two")
	expect(want)

	// Several mistakes of a person can be repaired one after the other.
	h.setConfig(map[string]string{"global": "zone: [", "two": "a: ]"})
	h.awaitRefusal(o)
	expectAll(t, run("values", "unset", "global"), "failed", "nothing was written: the ConfigMap is refused already", "key two", "--force")
	expectAll(t, run("values", "unset", "global", "--force"), "is written", "it is refused", "key two")
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
	unset := func() string { return run("values", "unset", "two.licence", "--dry-run") }
	h.shows("the Secret is known", unset, "Secret "+h.namespace+"/addon-operator would be written")
	expectAll(t, run("values", "unset", "two.licence"), "two.licence: \"***\" -> (none)", "Secret "+h.namespace+"/addon-operator is written")

	// What the operator has not seen before the deletion is no last valid content.
	expectAll(t, run("values", "set", "one.size", "4"), "one.size: 3 -> 4")
	h.awaitConfigMap("one", "size", "4")
	want["one"] = "# by the team\nsize: 4 # two\n"
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
	expectAll(t, run("values", "set", "one.size", "4", "--force"), "failed", "it does not exist, and only the operator knows its last valid content")
	h.setConfig(map[string]string{"one": "size: 3\n"})
	expectAll(t, run("values", "set", "one.size", "4"), "failed", "nothing was written, because nothing validates it: no operator answers")
	if out := run("values", "set", "two.licence", "planted-6", "--force", "--dry-run"); strings.Contains(out, "planted") {
		t.Errorf("without an operator a secret is shown:\n%s", out)
	}
	expectAll(t, run("values", "set", "one.size", "4", "--force"), "is written", "NOT validated: no operator answers")
	expect(map[string]string{"one": "size: 4\n"})
}

// What belongs to no module is written with --force only. After an edit with kubectl the same words are in an Event
// and in status. D12.
func TestUnknownModuleInTheConfigMap(t *testing.T) {
	h := newFixture(t, "configmap")
	o := h.start().ready()
	const words = "no module twoo; did you mean two?"
	h.setConfig(map[string]string{"twoo": "a: 1"})
	o.expect("WARN the ConfigMap has values for a module that does not exist", "key=twoo", "didYouMean=two")
	h.awaitEvent("Warning UnknownModule", words)
	o.ask("status", "configuration", words)
	o.ask("status -o json", words)
	set := func(want string, args ...string) {
		t.Helper()
		expectAll(t, o.command(append([]string{"values"}, args...)...), want)
	}
	set("is written", "unset", "twoo.a") // what is there can be removed
	if got := h.config(); len(got) > 0 {
		t.Errorf("the ConfigMap is %q", got)
	}
	set("is written", "set", "twoo.a", "2", "--force")
}

// An edit after which the operator would delete objects says so, and needs --yes, which also allows an upgrade that
// would be held back. P1.
func TestValuesSetThatDeletesAsks(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
dbEnabled: true
db: {persistence: true}
-- modules/005-db/templates/all.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: db}}
---
{{ if .Values.db.persistence }}
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
{{ end }}
`)
	o := h.start().ready()
	h.awaitRevisions("db", "1:deployed")
	run := func(args string) string {
		out, err := o.run("", strings.Fields("values "+args)...)
		if err != nil {
			return "failed: " + out
		}
		return out
	}
	claim := "- PersistentVolumeClaim " + h.namespace + "/data"
	expectAll(t, run("set db.persistence false --dry-run"), claim, "would be written (dry run)")
	expectAll(t, run("set db.persistence false"), "failed", claim, "nothing was written: objects that would be deleted or replaced: 1; --yes allows it")
	if got := h.config(); len(got) > 0 {
		t.Errorf("the ConfigMap is %q", got)
	}
	expectAll(t, run("set db.persistence false --yes"), claim, "is written")
	o.expect("INFO objects that have left the chart are deleted", "PersistentVolumeClaim")
	h.awaitRevisions("db", "1:superseded 2:deployed")
	h.awaitNoConfirmation()
	expectAll(t, run("set dbEnabled false"), "failed", "- stop db", "- ConfigMap "+h.namespace+"/db", "nothing was written")
	expectAll(t, run("set dbEnabled false --yes"), "is written")
	h.awaitRevisions("db", "")
}

// A password that a hook has generated is rotated by its removal, one that a person has set by another one, as
// docs/tasks/rotate-a-password.md says. D41.
func TestPasswordIsRotated(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
grafanaEnabled: true
-- modules/010-grafana/openapi/config-values.yaml --
type: object
properties:
  adminPassword: {type: string, x-secret: true}
-- modules/010-grafana/hooks/generate.sh --
#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then echo '{"configVersion": "v1", "beforeHelm": 1}'; exit; fi
jq -e .grafana.adminPassword "$CONFIG_VALUES_PATH" >/dev/null && exit
echo '[{"op": "add", "path": "/grafana/adminPassword", "value": "generated-'$RANDOM$RANDOM'"}]' >"$CONFIG_VALUES_JSON_PATCH_PATH"
-- modules/010-grafana/templates/secret.yaml --
{apiVersion: v1, kind: Secret, metadata: {name: grafana}, stringData: {password: {{ .Values.grafana.adminPassword }}}}
`)
	o := h.start().ready()
	awaitOther := func(than string) (password string) {
		h.eventually("another password", func() error {
			s, err := h.client.CoreV1().Secrets(h.namespace).Get(h.ctx, "grafana", metav1.GetOptions{})
			if err == nil && string(s.Data["password"]) == than {
				err = errors.New("it is still the former one")
			}
			if err == nil {
				password = string(s.Data["password"])
			}
			return err
		})
		return password
	}
	first := awaitOther("")
	run := func(input string, args ...string) {
		out, err := o.run(input, append([]string{"values"}, args...)...)
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		expectAll(t, out, "Secret "+h.namespace+"/addon-operator is written")
	}
	run("", "unset", "grafana.adminPassword")
	second := awaitOther(first)
	if !strings.HasPrefix(second, "generated-") {
		t.Errorf("the password is %q", second)
	}
	run("of-a-person\n", "set", "grafana.adminPassword", "--string", "--file", "-")
	if third := awaitOther(second); third != "of-a-person" {
		t.Errorf("the password is %q", third)
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
		if strings.Contains(string(body), "size: 3") && r.URL.Path == "/values/check" {
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

// In the operator's Pod 'values set' needs no more than the roles that the operator has, also with a deleted
// ConfigMap. B3.
func TestValuesAreSetWithTheRolesOfTheOperator(t *testing.T) {
	h := newFixture(t, "configmap")
	h.write("modules/values.yaml", "global: {zone: a}\noneEnabled: true\n")
	h.apply(h.generated(), false)
	h.become()
	o := h.start("ADDON_OPERATOR_START_WITH_LAST_VALID_CONFIG=true").ready()
	set := func(args ...string) string {
		out, err := o.run("", append([]string{"values", "set"}, args...)...)
		if err != nil {
			t.Errorf("%v: %v: %s", args, err, out)
		}
		return out
	}
	expectAll(t, set("one.size", "3"), "is written", "validated by the running operator")
	h.awaitConfigMap("one", "size", "3")
	expectAll(t, set("one.size", "4"), "one.size: 3 -> 4")
	h.awaitConfigMap("one", "size", "4")
	h.deleteConfigMap("addon-operator")
	expectAll(t, set("global.zone", "b"), "created again with its last valid content")
	if got := h.config(); strings.TrimSpace(got["one"]) != "size: 4" || strings.TrimSpace(got["global"]) != "zone: b" {
		t.Errorf("the ConfigMap is %q", got)
	}
}
