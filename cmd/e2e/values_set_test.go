package e2e

import (
	"encoding/base64"
	"encoding/json"
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
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"addon-operator/testkit/devclustertest"
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
	o.expect("WARN the values may have mistakes", "the ConfigMap has twoo", words)
	h.awaitEvent("Warning ValuesWarning", words)
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

// What is planted: in the Secret, by a hook at a path that the schema marks, at such a path in the ConfigMap, and in
// a Secret that is refused.
const (
	plantedLayer   = "planted-in-the-layer-5kD"
	plantedHook    = "planted-by-the-hook-8sQ"
	plantedConfig  = "planted-in-the-config-2xM"
	plantedRefused = "planted-and-refused-because-it-is-longer-than-the-schema-lets-it-be"
	plantedOld     = "planted-before-the-next-9wE"
	// YAML folds the one, and indents the lines of the other, which are too short to be hidden alone.
	plantedLong  = "planted-word planted-word planted-word planted-word planted-word planted-word planted-word planted-word planted-word"
	plantedLines = "planted-a\\nplanted-b\\nplanted-c"
	// What looks like a secret, by its name or its form, in the ConfigMap.
	plantedLooks = "adminPassword: planted-by-its-name-3bN\n" +
		"url: https://somebody:planted-in-a-url-7cV@example.com/x\n" +
		"pem: |\n  -----BEGIN PRIVATE KEY-----\n  planted-in-a-pem-1dZ\n  -----END PRIVATE KEY-----\n"
)

const secretModules = `
-- modules/values.yaml --
wellEnabled: true
-- modules/010-well/openapi/config-values.yaml --
type: object
properties:
  made: {type: string, x-secret: true}
  token: {type: string, x-secret: true, maxLength: 40}
  user: {type: string}
  word: {type: string}
  long: {type: string}
  lines: {type: string}
  fail: {type: boolean, default: false}
  adminPassword: {type: string, maxLength: 40}
  url: {type: string, pattern: '^https:'}
  pem: {type: string}
-- modules/010-well/templates/all.yaml --
{{- if .Values.well.fail }}{{ fail (printf "no chart with %s" .Values.well.word) }}{{ end }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: well
  annotations: {note: {{ .Values.well.word | quote }}}
data:
  conf: |
    # how it is
    size = 1
    it is {{ .Values.well.made }}
  coded: {{ .Values.well.word | b64enc }}
  json: {{ dict "x" .Values.well.token | toJson | quote }}
  lines: {{ .Values.well.lines | quote }}
  named: "port=1\npassword={{ .Values.well.adminPassword }}\n"
  form: {{ printf "%s\n%s" .Values.well.url .Values.well.pem | quote }}
  long: {{ .Values.well.long | quote }}
  user: {{ .Values.well.user | quote }}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: well}
spec:
  replicas: 0
  selector: {matchLabels: {a: b}}
  template:
    metadata: {labels: {a: b}}
    spec:
      containers:
      - name: well
        image: none
        args: ["--flavour={{ .Values.well.made }}", "--size", "1"]
        env:
        - {name: FLAVOUR, value: {{ .Values.well.word | quote }}}
-- modules/010-well/hooks/make.sh --
#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then
  echo '{"configVersion": "v1", "beforeHelm": 1}'
  exit
fi
if ! jq -e .well.made "$CONFIG_VALUES_PATH" >/dev/null; then
  echo '[{"op": "add", "path": "/well/made", "value": "planted-by-the-hook-8sQ"}, {"op": "add", "path": "/well/user", "value": "somebody"}]' >"$CONFIG_VALUES_JSON_PATCH_PATH"
fi
echo "it is $(jq -r .well.made "$VALUES_PATH") $(jq -r .well.word "$VALUES_PATH")"
jq -c '{name: "well_words", set: 1, labels: {word: .well.word, made: .well.made}}' "$VALUES_PATH" >"$METRICS_PATH"
jq -c '[{op: "add", path: "/well/made", value: (.well.made // "planted-by-the-hook-8sQ")}]' "$VALUES_PATH" >"$VALUES_JSON_PATCH_PATH"
-- modules/010-well/hooks/look.sh --
#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then
  echo '{"configVersion": "v1", "kubernetes": [{"name": "well", "kind": "ConfigMap", "nameSelector": {"matchNames": ["well"]}, "namespace": {"nameSelector": {"matchNames": ["'$NAMESPACE'"]}}}]}'
fi
-- modules/010-well/hooks/fail.sh --
#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then
  echo '{"configVersion": "v1", "schedule": [{"crontab": "@every 1s", "queue": "side"}]}'
  exit
fi
printf 'cannot use %s, nor \033[31m%s\n' "$(jq -r .well.word "$VALUES_PATH")" "$(jq -r .well.token "$VALUES_PATH")" >&2
exit 1
`

// setSecret writes keys of the Secret with values as a person would, and creates it.
func (h *fixture) setSecret(texts map[string]string) {
	h.t.Helper()
	secrets := h.client.CoreV1().Secrets(h.namespace)
	h.eventually("a write without a conflict", func() error {
		secret, err := secrets.Get(h.ctx, "addon-operator", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = secrets.Create(h.ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "addon-operator"}, StringData: texts}, metav1.CreateOptions{})
			return err
		}
		if err == nil {
			secret.StringData = texts
			_, err = secrets.Update(h.ctx, secret, metav1.UpdateOptions{})
		}
		return err
	})
}

// secretData reads the Secret with values.
func (h *fixture) secretData() map[string]string {
	h.t.Helper()
	secret, err := h.client.CoreV1().Secrets(h.namespace).Get(h.ctx, "addon-operator", metav1.GetOptions{})
	must(h.t, err)
	return textsOf(secret)
}

// D38, D40, D41, J9, J14: what lies in the Secret, what a schema marks with x-secret, and what looks like a secret by
// the name of its key, as a key in PEM, or in a URL, is in no page, plan, explanation, render, drift, dump, metric,
// trace, error, Event, object of kind Module or line of the log, through whatever door it came and wherever a chart
// or a hook has put it.
func TestNoSecretIsShown(t *testing.T) {
	t.Parallel()
	h, traces := fixtureOn(t, devclustertest.Borrow(t), secretModules), newReceiver(t)
	h.kubectl("apply", "-f", h.definition())
	h.setConfig(map[string]string{"well": "token: " + plantedConfig + "\n" + plantedLooks})
	others := "lines: \"" + plantedLines + "\"\nlong: " + plantedLong + "\n"
	h.setSecret(map[string]string{"well": "word: " + plantedOld + "\n" + others})
	o := h.start("ADDON_OPERATOR_DRIFT=report", limited(limits{DriftPeriod: time.Second}),
		"OTEL_EXPORTER_OTLP_ENDPOINT="+traces.URL, "OTEL_BSP_SCHEDULE_DELAY=100", "LOG_LEVEL=debug").ready()
	if got := h.secretData()["well"]; !strings.Contains(got, plantedHook) || !strings.Contains(got, plantedOld) {
		t.Errorf("the hook's patch is not in the Secret: %q", got)
	}
	if got := h.config()["well"]; strings.Contains(got, plantedHook) || !strings.Contains(got, "somebody") || !strings.Contains(got, plantedConfig) {
		t.Errorf("the ConfigMap is %q", got)
	}
	o.expect("which more people can read", "well.token")
	expectAll(t, o.command("values", "explain", "well.made"), "Secret")
	h.setSecret(map[string]string{"well": "made: " + plantedHook + "\nword: " + plantedLayer + "\n" + others})
	h.awaitConfigMap("well", "coded", base64.StdEncoding.EncodeToString([]byte(plantedLayer)))

	h.setSecret(map[string]string{"well": "token: " + plantedRefused + "\n"})
	o.expect("ConfigMap and Secret are refused", "well.token: must have at most 40 characters")
	o.expect("cannot use ***, nor")
	refused := "adminPassword: " + plantedRefused + "\nurl: ftp://somebody:planted-url-4fJ@example.com\n"
	h.setConfig(map[string]string{"well": refused})
	o.expect("ConfigMap and Secret are refused", "well.adminPassword: must have at most 40 characters", "ftp://somebody:***@")
	_, err := h.client.CoreV1().ConfigMaps(h.namespace).Patch(h.ctx, "well", types.MergePatchType,
		[]byte(`{"data":{"conf":"`+plantedOld+`","coded":"x","user":"x"}}`), metav1.PatchOptions{})
	must(t, err)
	o.expect("an object of the module was changed by another client", "module=well")
	h.awaitEvent("Warning Refused: ", onConfigMap)
	h.write("next.yaml", "well: |\n  token: "+plantedConfig+"\n  user: other\n")
	h.write("fails.yaml", "well: |\n  token: "+plantedConfig+"\n  fail: true\n")
	everything := o.allThatIsShown(t)
	h.eventually("spans of all that has run", func() error {
		traces.mu.Lock()
		defer traces.mu.Unlock()
		if everything["traces"] = fmt.Sprint(traces.spans); !strings.Contains(everything["traces"], "cannot use") {
			return errNotYet
		}
		return nil
	})
	if code := o.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	everything["log"] = strings.Join(o.output.lines(), "\n")
	for what, text := range everything {
		for _, secret := range []string{"planted-", base64.StdEncoding.EncodeToString([]byte("planted-"))[:10]} {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s shows a secret: …%s…", what, text[max(0, at-200):min(len(text), at+100)])
			}
		}
		if strings.Contains(text, "\x1b") {
			t.Errorf("%s commands a terminal", what)
		}
	}
}

// allThatIsShown collects what a person or a program can see of the operator without asking for secrets, by where it
// comes from.
func (o *operator) allThatIsShown(t *testing.T) map[string]string {
	t.Helper()
	h, all := o.fixture, map[string]string{}
	debug := "http://" + o.debug
	for _, path := range []string{
		"/", "/status", "/module/ready", "/hook/runs", "/readyz?verbose", "/metrics", "/metrics/hooks", "/queue", "/status/converge", "/status/converge?output=json", "/discovery",
		"/queue/list", "/queue/list?queue=side", "/queue/main.text", "/global/list", "/global/values", "/global/config", "/global/patches", "/global/snapshots",
		"/module/list", "/module/list.yaml", "/module/resource-monitor", "/module/well/values", "/module/well/values.yaml", "/module/well/config?global=true",
		"/module/well/patches", "/module/well/snapshots", "/module/well/snapshots.yaml", "/module/well/status", "/module/well/render", "/module/well/render?diff=true&debug=true",
		"/module/well/render.json?diff=true", "/module/well/drift", "/module/well/drift.yaml", "/hook/list", "/hook/010-well/hooks/look.sh/snapshots", "/hook/010-well/hooks/look.sh/snapshots?output=yaml",
		"/values/explain?module=well", "/values/explain.yaml?path=well.made", "/plan", "/plan.yaml", "/actors", "/actors?output=json", "/actors?output=yaml", "/config/list",
	} {
		for _, address := range []string{o.public, debug} {
			status, body := get(address + path)
			if status == http.StatusOK || address == debug {
				all[address+path] = body
			}
		}
		if _, body := get(o.public + path + "?show-secrets=true"); body != "" {
			all["public "+path+" with show-secrets"] = body
		}
	}
	if _, shown := get(debug + "/module/well/values?show-secrets=true"); !strings.Contains(shown, plantedLayer) || !strings.Contains(shown, plantedHook) {
		t.Errorf("who asks for secrets is not shown them: %s", shown)
	}
	for _, args := range []string{
		"--dump-actors", "--dump-actors -o json", "plan", "plan -o json", "plan -f next.yaml", "plan -f fails.yaml", "plan . -f next.yaml", "plan . -f fails.yaml",
		"module drift well", "module drift well -o yaml", "module values well", "module config well -o yaml", "module patches well", "module render well", "module render well --diff",
		"values explain well", "status", "logs well", "module list", "queue list", "why well", "values check",
	} {
		all["command "+args] = o.command(strings.Fields(args)...)
	}
	events, err := h.client.CoreV1().Events(h.namespace).List(h.ctx, metav1.ListOptions{})
	must(t, err)
	text, err := json.Marshal(events)
	must(t, err)
	all["events"] = string(text)
	all["Module objects"] = h.printed("get", "modules", "-n", h.namespace, "-o", "yaml")
	for _, what := range []string{"command plan -f next.yaml", "command module drift well", "events", "Module objects"} {
		if len(all[what]) < 100 {
			t.Errorf("%s shows nothing: %s", what, all[what])
		}
	}
	return all
}
