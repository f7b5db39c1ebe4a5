package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// healthModules has modules with Deployments: slow waits for its Pod, late has given up on it after a second.
const healthModules = `
-- modules/values.yaml --
plainEnabled: true
slowEnabled: true
lateEnabled: true
-- modules/010-plain/templates/config.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: plain}}
-- modules/020-slow/templates/deployment.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: slow}
spec:
  selector: {matchLabels: {app: slow}}
  template: {metadata: {labels: {app: slow}}, spec: {containers: [{name: a, image: none}]}}
-- modules/030-late/templates/deployment.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: late}
spec:
  progressDeadlineSeconds: 1
  selector: {matchLabels: {app: late}}
  template: {metadata: {labels: {app: late}}, spec: {containers: [{name: a, image: none}]}}
`

// awaitModule waits until a module is in a state, as the list of modules says.
func (o *operator) awaitModule(module, want string) {
	o.fixture.t.Helper()
	o.fixture.eventually(fmt.Sprintf("module %s to be %s", module, want), func() error {
		var list struct {
			Modules []struct{ Name, State string }
		}
		status, body := get("http://" + o.debug + "/module/list.json")
		if status != http.StatusOK {
			return errNotYet
		}
		if err := json.Unmarshal([]byte(body), &list); err != nil {
			return err
		}
		for _, m := range list.Modules {
			if m.Name == module && m.State == want {
				return nil
			}
		}
		return fmt.Errorf("%w: %+v", errNotYet, list.Modules)
	})
}

// runPods plays the kubelet: all Pods of an app are ready from now on.
func (h *fixture) runPods(app string) {
	h.t.Helper()
	pods := h.client.CoreV1().Pods(h.namespace)
	h.eventually("the Pods of "+app, func() error {
		list, err := pods.List(h.ctx, metav1.ListOptions{LabelSelector: "app=" + app})
		if err != nil || len(list.Items) == 0 {
			return errNotYet
		}
		for _, pod := range list.Items {
			pod.Status.Phase, pod.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			if _, err := pods.UpdateStatus(h.ctx, &pod, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
}

// A module is ready when its objects are: a Deployment whose Pod does not run keeps it from that, and one that has
// given up is a problem, in the list, on the page and as a metric. The operator itself is ready all the same. H25.
func TestHealthOfObjects(t *testing.T) {
	h := newFixture(t, healthModules)
	o := h.start().ready()
	o.awaitModule("plain", "ready")
	o.awaitModule("slow", "progressing")
	o.awaitModule("late", "unhealthy")
	o.ask("module list", "Deployment "+h.namespace+"/slow has been InProgress since", "Deployment "+h.namespace+"/late has been Failed since")
	if got := o.metric("addon_operator_module_unhealthy", `module="late"`); got != "1" {
		t.Errorf("the metric is %q", got)
	}
	if status, page := get("http://" + o.debug + "/"); status != http.StatusOK || !strings.Contains(page, "Deployment "+h.namespace+`/late <span class="dim">has been Failed for `) {
		t.Errorf("the page does not show it: %d %s", status, page)
	}
	if out := o.command("wait", "slow", "late", "--timeout", "1s"); !strings.Contains(out, "slow is progressing: 0 of 1 objects are current: Deployment") || !strings.Contains(out, "late is unhealthy: Deployment") {
		t.Errorf("wait says %q", out)
	}
	waited := make(chan string, 1)
	go func() { waited <- o.command("wait", "--timeout", "3m") }()
	h.runPods("slow")
	h.runPods("late")
	if out := <-waited; !strings.HasSuffix(out, "ready\n") {
		t.Errorf("wait says %q", out)
	}
	o.awaitModule("slow", "ready")
	o.awaitModule("late", "ready")
	h.awaitRevisions("late", "1:deployed")

	o.terminate()
	o = h.start().ready()
	o.awaitModule("late", "ready") // known from the first list
	h.kubectl("scale", "-n", h.namespace, "deployment", "late", "--replicas=2")
	o.awaitModule("late", "progressing")
	h.setConfig(map[string]string{"lateEnabled": "false"})
	o.awaitModule("late", "disabled")
}

// A module with an object that is being deleted, and that a finalizer keeps, is not ready, also if objects of its
// kind have no status; the finalizer is named. When the object is gone, it is created again. H13, H25.
func TestObjectIsBeingDeleted(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
plainEnabled: true
-- modules/010-plain/templates/config.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: plain}}
`)
	o := h.start().ready()
	o.awaitModule("plain", "ready")
	h.kubectl("patch", "configmap", "plain", "-n", h.namespace, "-p", `{"metadata":{"finalizers":["example.com/keeps"]}}`)
	h.kubectl("delete", "configmap", "plain", "-n", h.namespace, "--wait=false")
	o.awaitModule("plain", "progressing")
	o.ask("module list", "ConfigMap "+h.namespace+"/plain has been Terminating since", "waits for its finalizers: example.com/keeps")
	uid := h.configMapUID("plain")
	h.kubectl("patch", "configmap", "plain", "-n", h.namespace, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	o.awaitModule("plain", "ready")
	if h.configMapUID("plain") == uid {
		t.Error("it is ready, and the object is not another one")
	}
}
