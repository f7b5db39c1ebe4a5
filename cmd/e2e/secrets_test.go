package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"addon-operator/testkit/devclustertest"
)

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
	o.expect("are in the ConfigMap", "well.token")
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
