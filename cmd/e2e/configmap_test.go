package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// enabledOnlyThere is a ConfigMap without which both modules are off.
const enabledOnlyThere = `
apiVersion: v1
kind: ConfigMap
metadata: {name: addon-operator}
data:
  oneEnabled: "true"
  twoEnabled: "true"
  one: "size: 2"
`

// awaitRefusal waits until the operator says that it is ready, and that the ConfigMap is refused.
func (h *fixture) awaitRefusal(o *operator) {
	h.t.Helper()
	h.eventually("a refusal in /readyz?verbose", func() error {
		if status, body := get(o.public + "/readyz?verbose"); status != http.StatusOK || !strings.Contains(body, "REFUSED") {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
}

func eventTexts(events []corev1.Event) (all []string) {
	for _, e := range events {
		all = append(all, fmt.Sprintf("%s %s: %s (a %s with a UID: %t)", e.Type, e.Reason, e.Message, e.InvolvedObject.Kind, e.InvolvedObject.UID != ""))
	}
	return all
}

const onConfigMap = " (a ConfigMap with a UID: true)"

// awaitEvent waits for an event whose text, 'TYPE REASON: MESSAGE', has all these parts. That on
// a ConfigMap that is deleted has no UID; that on one that is there is onConfigMap.
func (h *fixture) awaitEvent(parts ...string) {
	h.t.Helper()
	h.eventually(fmt.Sprintf("an event with %q", parts), func() error {
		list, err := h.client.CoreV1().Events(h.namespace).List(h.ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		texts := eventTexts(list.Items)
		if !slices.ContainsFunc(texts, func(text string) bool { return containsAll(text, parts) }) {
			return fmt.Errorf("there are %v", texts)
		}
		return nil
	})
}

// With the option, a ConfigMap that is not valid at the start, or is gone, is no outage: the last
// valid values are in force, and every status says so, until the ConfigMap is fixed. P3, P1.
func TestStartWithLastValidConfig(t *testing.T) {
	const option = "ADDON_OPERATOR_START_WITH_LAST_VALID_CONFIG=true"
	h := newFixture(t, "configmap")
	h.write("modules/values.yaml", "global: {zone: a}\n")
	h.write("cm.yaml", enabledOnlyThere)
	h.kubectl("create", "-n", h.namespace, "-f", h.path("cm.yaml"))
	h.start(option).ready().terminate()
	h.awaitRevisions("one", "1:deployed")
	secret, err := h.client.CoreV1().Secrets(h.namespace).Get(h.ctx, "addon-operator-last-valid", metav1.GetOptions{})
	if err != nil || secret.Type != "addon-operator/last-valid-config" || string(secret.Data["config.one"]) != "size: 2" {
		t.Fatalf("the last valid values were not kept: %v, %v", secret, err)
	}

	h.setConfig(map[string]string{"one": "size: big"})
	o := h.start(option)
	o.expect("ERROR", "the operator starts with the last valid values", "Secret "+h.namespace+"/addon-operator-last-valid", "one.size")
	o.ready()
	const refused = "REFUSED since the start"
	if _, body := get(o.public + "/readyz?verbose"); !strings.Contains(body, refused) || strings.Contains(body, "one.size") {
		t.Errorf("/readyz?verbose does not tell it, or shows why:\n%s", body)
	}
	const notice = "ConfigMap and Secret are refused since the start; the last valid values of Secret "
	expectAll(t, o.body("/"), notice)
	expectAll(t, o.body("/metrics"), "addon_operator_config_values_refused 1\n")
	if list := o.command("module", "list"); !strings.HasPrefix(list, notice) || !strings.Contains(list, "one.size") {
		t.Errorf("module list does not begin with it:\n%s", list)
	}
	h.awaitEvent("Warning Refused", "has started with the last valid values", "one.size")
	h.setConfig(map[string]string{"one": "size: 3"})
	h.awaitConfigMap("one", "size", "3")
	h.awaitEvent("Normal Accepted", "in force")
	expectAll(t, o.body("/metrics"), "addon_operator_config_values_refused 0\n")
	o.terminate()

	h.deleteConfigMap("addon-operator")
	o = h.start(option).ready()
	h.awaitRefusal(o)
	h.awaitConfigMap("one", "size", "3")
	h.kubectl("create", "configmap", "addon-operator", "-n", h.namespace)
	o.expect("config values changed", "flags=true")
	h.awaitRevisions("one", "")
}
