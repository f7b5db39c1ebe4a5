package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// asks has the API server of a test ask hooks at a port of the operator's choice.
const asks = "ADDON_OPERATOR_WEBHOOK_ADDRESS=127.0.0.1:0"

// write creates a ConfigMap with a label that a webhook selects, and returns it or why it is refused.
func (h *fixture) writeLabelled(name, label string, data map[string]string) (*corev1.ConfigMap, error) {
	return h.client.CoreV1().ConfigMaps(h.namespace).Create(h.ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{label: "yes"}}, Data: data,
	}, metav1.CreateOptions{})
}

// refused writes a ConfigMap that a webhook must refuse with these words; none: it must not be refused.
func (h *fixture) refused(name, color, want string) {
	h.t.Helper()
	_, err := h.writeLabelled(name, "reviewed", map[string]string{"color": color})
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		h.t.Errorf("%s: got error %v, want %q", color, err, want)
	}
}

// Hooks answer the API server: what they deny, change, and how they fail. O1–O5, O8.
func TestReviews(t *testing.T) {
	h := newFixture(t, "webhooks")
	must(t, second(h.writeLabelled("colors", "plain", map[string]string{"forbidden": "blue"})))
	o := h.start(asks).ready()

	expectAll(t, o.command("hook", "list"), "kubernetesValidating", "color.example.com", "kubernetesMutating", "configmaps")
	h.refused("a", "green", "")
	h.refused("b", "blue", "blue is forbidden")
	expectAll(t, o.command("--dump-actors"), "admission", "2 hooks with webhooks, 2 requests")
	h.refused("c", "crash", "hook 050-policy/hooks/validate.sh: exit code 3")
	h.refused("d", "nothing", "hook 050-policy/hooks/validate.sh: ADMISSION_RESPONSE_PATH: the hook wrote nothing")
	h.refused("e", "invalid", "is no answer")
	h.refused("f", "values", "cannot change values")
	h.refused("g", "slow", "hook 050-policy/hooks/validate.sh gave no answer within 2.5s")
	slow, err := strconv.Atoi(strings.TrimSpace(h.read("out/slow")))
	must(t, err)
	h.until("the end of its process", func() bool { return errors.Is(syscall.Kill(slow, 0), syscall.ESRCH) })
	for how, want := range map[string]string{"base64": "injected", "list": "injected", "crash": "", "other": ""} {
		written, err := h.writeLabelled("how-"+how, "mutated", map[string]string{"how": how})
		must(t, err)
		if got := written.Data["sidecar"]; got != want {
			t.Errorf("%s: the object has %q, want %q", how, got, want)
		}
	}
	if got := o.metric("addon_operator_webhook_requests_total", `binding="sidecar.example.com"`, `result="failed"`); got != "2" {
		t.Errorf("%s mutating reviews have failed, want 2", got)
	}
	for result, want := range map[string]string{"allowed": "1", "denied": "1", "failed": "5"} {
		labels := []string{`module="policy"`, `binding="color.example.com"`, `result="` + result + `"`}
		if got := o.metric("addon_operator_webhook_requests_total", labels...); got != want {
			t.Errorf("metric of %s is %s, want %s", result, got, want)
		}
	}
	h.refused("h", "own", "waits for itself")
	h.setConfig(map[string]string{"policyEnabled": "false"})
	h.becomes("configurations without the module", "", h.webhooks)
}

// webhooks names the configurations of the operator.
func (h *fixture) webhooks() string {
	options := metav1.ListOptions{LabelSelector: "addon-operator/webhooks=" + h.namespace}
	validating, err := h.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(h.ctx, options)
	must(h.t, err)
	mutating, err := h.client.AdmissionregistrationV1().MutatingWebhookConfigurations().List(h.ctx, options)
	must(h.t, err)
	var names []string
	for _, c := range validating.Items {
		names = append(names, c.Name)
	}
	for _, c := range mutating.Items {
		names = append(names, c.Name)
	}
	return strings.Join(names, " ")
}

// A killed operator leaves its webhooks, so nothing gets past them. The next one does not wait for itself: a hook of
// the last module answers when the first one is upgraded, at another port. O2, O5.
func TestReviewsOverARestart(t *testing.T) {
	h := newFixture(t, "webhooks")
	o := h.start(asks).ready()
	h.refused("a", "green", "")
	o.kill()
	h.refused("b", "green", "connect: connection refused")
	h.setConfig(map[string]string{"web": "{color: white}"})
	h.write("modules/010-web/templates/web.yaml", strings.ReplaceAll(h.read("modules/010-web/templates/web.yaml"), "{color:", "{shade: dark, color:"))
	// A global hook that writes before anything is known of the module whose hook reviews it.
	h.write("global-hooks/hooks/early.sh", `#!/bin/sh
if [ "$1" = --config ]; then echo '{"configVersion": "v1", "onStartup": 1}'; exit; fi
echo '{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "early", "namespace": "'"$NAMESPACE"'", "labels": {"reviewed": "yes"}}, "data": {"color": "early"}}}' >"$KUBERNETES_PATCH_PATH"
`)
	next := h.start(asks).ready()
	h.awaitConfigMap("web", "shade", "dark")
	h.awaitConfigMap("early", "color", "early")
	if got := h.lines("out/reviews"); !slices.Contains(got, "UPDATE white") {
		t.Errorf("hooks have seen %q, want the upgrade of the module web", got)
	}
	h.refused("c", "green", "")

	// The end of an installation: an operator that still runs configures nothing again.
	if output, err := next.run("", "webhooks", "delete"); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	h.setConfig(map[string]string{"global": "a: 1"})
	next.expect("converged", "cause=ConfigMap: global.a")
	next.expect("webhooks could not be configured", "'webhooks delete' has removed them")
	if got := h.webhooks(); got != "" {
		t.Errorf("there are %s after webhooks delete", got)
	}
	h.refused("d", "blue", "")
	next.terminate()
	h.start(asks).ready()
	if got := h.webhooks(); got == "" {
		t.Error("the next operator configures nothing")
	}
}

// Nothing that an earlier process has configured locks this one out: neither a module that was disabled while the operator
// was away, nor a webhook that has another name now, although its module comes last. O2, O5
func TestReviewsOfWhatIsGone(t *testing.T) {
	for name, change := range map[string]func(h *fixture){
		"disabled": func(h *fixture) { h.setConfig(map[string]string{"policyEnabled": "false"}) },
		"renamed": func(h *fixture) {
			hook := h.read("modules/050-policy/hooks/validate.sh")
			h.write("modules/050-policy/hooks/validate.sh", strings.ReplaceAll(hook, "color.example.com", "shade.example.com"))
		},
		"without":      func(h *fixture) { h.remove("modules/050-policy/hooks/validate.sh") },
		"no hooks":     func(h *fixture) { h.remove("modules/050-policy/hooks") },
		"no directory": func(h *fixture) { h.remove("modules/050-policy") },
	} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, "webhooks")
			h.start(asks).ready().kill()
			h.setConfig(map[string]string{"web": "{color: white}"})
			change(h)
			h.start(asks).ready()
			h.awaitConfigMap("web", "color", "white")
			h.until("nothing else", func() bool {
				return strings.Count(h.webhooks(), "policy") == map[string]int{"renamed": 2, "without": 1}[name]
			})
		})
	}
}

// Absence is no order: what is configured for a module whose link leads to nothing stays, as its release does. A10
func TestWebhooksOfALinkToNothing(t *testing.T) {
	h := newFixture(t, "webhooks")
	h.start(asks).ready().kill()
	before := h.webhooks()
	h.remove("modules/050-policy")
	must(t, os.Symlink(h.path("nothing"), h.path("modules/050-policy")))
	h.start(asks).ready()
	if now := h.webhooks(); now != before {
		t.Errorf("there are %q, were %q", now, before)
	}
	h.refused("a", "green", "failed calling webhook")
}

// Not one request fails while certificates and their CA are renewed again and again.
func TestCertificatesOfWebhooks(t *testing.T) {
	h := newFixture(t, "webhooks")
	var short limits
	short.Webhooks.Life, short.Webhooks.Settle = 6*time.Second, time.Second
	h.start(asks, limited(short)).ready()
	seen := map[string]bool{}
	for i := 0; len(seen) < 3; i++ {
		h.refused("c"+strconv.Itoa(i), "green", "")
		secret, err := h.client.CoreV1().Secrets(h.namespace).Get(h.ctx, "addon-operator-webhooks", metav1.GetOptions{})
		must(t, err)
		seen[string(secret.Data[corev1.TLSCertKey])] = true
	}
}

// Hooks convert objects by chains of steps, each one run for all objects. O6, O7.
func TestConversions(t *testing.T) {
	h := newFixture(t, "conversion")
	// Nothing waits for a CRD that does not exist.
	h.write("global-hooks/hooks/early.sh", `#!/bin/sh
echo '{"configVersion": "v1", "kubernetesCustomResourceConversion": [{"crdName": "late.example.com", "conversions": [{"fromVersion": "v1", "toVersion": "v2"}]}]}'
`)
	o := h.start(asks).ready()
	o.expect("a hook converts objects of a CRD that does not exist", "crd=late.example.com")
	kubectl := func(input string, args ...string) (string, error) {
		cmd := exec.CommandContext(h.ctx, filepath.Join(h.tools, "kubectl"), append([]string{"-n", h.namespace}, args...)...)
		cmd.Env, cmd.Stdin = h.environment(), strings.NewReader(input)
		output, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(output)), err
	}
	const stages = "-o=jsonpath={.items[*].spec.stages}"
	if got, _ := kubectl("", "get", "rockets.v1.example.com", stages); got != `{"count":2,"names":["one","two"]}` {
		t.Errorf("the object of the chart is stored as %s", got)
	}
	must(t, second(kubectl("apiVersion: example.com/v1beta1\nkind: Rocket\nmetadata: {name: mine}\nspec: {stages: [a]}", "create", "-f-")))
	if got, err := kubectl("", "get", "rockets.v1alpha1.example.com", stages); got != "a one,two" && got != "one,two a" {
		t.Errorf("in the first version: %s, %v", got, err)
	}
	// Many at once, of two versions: one run for each step, for all that are at it.
	crd, err := kubectl("", "get", "crd", "rockets.example.com", "-o=json")
	must(t, err)
	h.remove("out/steps")
	const many = 10_000
	objects := make([]string, many)
	for i := range objects {
		version, spec := "v1beta1", `["a","b"]`
		if i%2 == 0 {
			version, spec = "v1", `{"count":1,"names":["c"]}`
		}
		objects[i] = fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":"Rocket","metadata":{"name":"r%d"},"spec":{"stages":%s}}`, version, i, spec)
	}
	status, body := askWebhook(t, crd, fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"example.com/v1alpha1","objects":[%s]}}`, strings.Join(objects, ",")))
	if status != http.StatusOK || strings.Count(body, `"stages":"a,b"`) != many/2 || strings.Count(body, `"stages":"c"`) != many/2 || strings.Index(body, `"r7"`) > strings.Index(body, `"r8"`) {
		t.Errorf("%d objects: status %d, %.300s", many, status, body)
	}
	// The API server may ask for single objects, too, meanwhile.
	alone := func(line string) bool { return strings.HasSuffix(line, " 1") || strings.HasSuffix(line, " 2") }
	got, want := slices.DeleteFunc(h.lines("out/steps"), alone), []string{fmt.Sprint("example.com/v1 ", many/2), fmt.Sprint("down1 ", many)}
	if !slices.Equal(got, want) {
		t.Errorf("the steps of a list are %q, want %q", got, want)
	}
	_, err = kubectl("apiVersion: example.com/v1beta1\nkind: Rocket\nmetadata: {name: bad, annotations: {break: \"yes\"}}\nspec: {stages: [a]}", "create", "-f-")
	if err == nil {
		t.Error("a conversion that renames the object is not refused")
	}
	o.expect("a webhook request has failed", "hook 010-rocket/hooks/beta.sh", "metadata.name")

	// A new version of the definition keeps the conversion; without the module there is none, and objects can be read.
	file := h.read("modules/010-rocket/crds/rockets.yaml")
	h.write("modules/010-rocket/crds/rockets.yaml", strings.Replace(file, "plural: rockets", "plural: rockets, shortNames: [rkt]", 1))
	h.setConfig(map[string]string{"global": "{a: 1}"})
	h.shows("the new version", func() string { got, _ := kubectl("", "get", "rkt", "-o=name"); return got }, "mine")
	strategy := func() string {
		got, _ := kubectl("", "get", "crd", "rockets.example.com", "-o=jsonpath={.spec.conversion.strategy}")
		return got
	}
	if got := strategy(); got != "Webhook" {
		t.Errorf("the conversion of the new version is %s", got)
	}
	h.setConfig(map[string]string{"rocketEnabled": "false"})
	h.becomes("the conversion without the module", "None", strategy)
}

// askWebhook asks a webhook as the API server does, with what is configured in an object.
func askWebhook(t *testing.T, object, request string) (status int, body string) {
	t.Helper()
	url := regexp.MustCompile(`"url": "([^"]+)"`).FindStringSubmatch(object)
	bundle := regexp.MustCompile(`"caBundle": "([^"]+)"`).FindStringSubmatch(object)
	if url == nil || bundle == nil {
		t.Fatalf("no webhook is configured in %s", object)
	}
	ca, err := base64.StdEncoding.DecodeString(bundle[1])
	must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	resp, err := client.Post(url[1], "application/json", strings.NewReader(request))
	must(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(data)
}

// Of several replicas the Pod of the leader has the label that the Service selects, and no other: neither one that was
// killed with it, nor one that waits. O2
func TestLeaderAnswersWebhooks(t *testing.T) {
	h := newFixture(t, "webhooks")
	pods := h.client.CoreV1().Pods(h.namespace)
	for _, name := range []string{"replica-1", "replica-2", "replica-3"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"addon-operator/leads": "true"}}}
		pod.Spec.Containers = []corev1.Container{{Name: "operator", Image: "operator"}}
		must(t, second(pods.Create(h.ctx, pod, metav1.CreateOptions{})))
	}
	labelled := func() string {
		list, err := pods.List(h.ctx, metav1.ListOptions{LabelSelector: "addon-operator/leads=true"})
		must(t, err)
		var names []string
		for _, pod := range list.Items {
			names = append(names, pod.Name)
		}
		return strings.Join(names, " ")
	}
	pod := func(o *operator) string {
		for _, variable := range o.env {
			if name, ok := strings.CutPrefix(variable, "ADDON_OPERATOR_POD="); ok {
				return name
			}
		}
		return ""
	}
	r := startReplicas(h, 2, append(hasty, asks, "ADDON_OPERATOR_WEBHOOK_SERVICE=hooks")...)
	leader := r.awaitConverged()
	h.becomes("the Pods with the label", pod(leader), labelled)
	killed := time.Now()
	r.kill(leader)
	next := r.awaitLeader()
	h.becomes("the Pods with the label", pod(next), labelled)
	t.Logf("another Pod answers %s after the leader was killed, whose Lease lasted 2s", time.Since(killed).Round(time.Millisecond))
}
