package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/testkit/devclustertest"
)

// CRDs of subcharts are installed with those of modules: when the subchart is enabled from the start, when a value
// enables it later, and again when somebody has deleted one. They stay when it is disabled. M1, M2, M5.
func TestCRDsOfSubcharts(t *testing.T) {
	h := newFixture(t, "web")
	h.remove("modules/010-web/hooks")
	group := h.namespace + ".example.com"
	define := func(kind string) string {
		t.Cleanup(func() { _ = h.tryIn(context.Background(), "delete", "crd", resource(kind, group), "--wait=false") })
		return definition(kind, group)
	}
	early, late := devclustertest.Kind("Early"), devclustertest.Kind("Late")
	h.write("modules/010-web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\ndependencies:\n- {name: early, version: 0.1.0}\n- {name: late, version: 0.1.0, condition: web.late}\n")
	h.write("modules/010-web/charts/early/Chart.yaml", "{apiVersion: v2, name: early, version: 0.1.0}")
	h.write("modules/010-web/charts/early/charts/deep/Chart.yaml", "{apiVersion: v2, name: deep, version: 0.1.0}")
	h.write("modules/010-web/charts/early/charts/deep/crds/early.yaml", define(early))
	h.write("modules/010-web/charts/early/templates/early.yaml", fmt.Sprintf("apiVersion: %s/v1\nkind: %s\nmetadata: {name: early}\n", group, early))
	h.write("modules/010-web/charts/late/Chart.yaml", "{apiVersion: v2, name: late, version: 0.1.0}")
	h.write("modules/010-web/charts/late/crds/late.yaml", define(late))
	h.write("modules/010-web/charts/late/templates/late.yaml", fmt.Sprintf("apiVersion: %s/v1\nkind: %s\nmetadata: {name: late}\n", group, late))
	h.write("modules/values.yaml", "webEnabled: true\nweb: {late: false}\n")
	o := h.start().ready()
	h.awaitRevisions("web", "1:deployed")
	there := func(kind, name string) error {
		return h.get(resource(kind, group), name)
	}
	defined := func(kind string) error { return h.get("crd", resource(kind, group)) }
	must(t, there(early, "early"))
	if defined(late) == nil {
		t.Error("the definition of a subchart that is off was installed")
	}
	h.setConfig(map[string]string{"web": "late: true"})
	h.eventually("the late object is there", func() error { return there(late, "late") })
	h.kubectl("delete", "crd", resource(early, group))
	h.eventually("the early object is back with its definition", func() error { return there(early, "early") })
	failed := o.count("task failed")
	h.setConfig(map[string]string{"web": "late: false"})
	h.until("the late object is gone", func() bool { return there(late, "late") != nil })
	if err := defined(late); err != nil {
		t.Errorf("the definition went with its subchart: %v", err)
	}
	if n := o.count("task failed"); n > failed {
		t.Errorf("%d tasks failed", n-failed)
	}
}

// The API server is lost while objects must be healed, and the operator survives it:
// what went meanwhile is back soon after the API server is. H13, H8.
func TestHealingOutlivesTheAPIServer(t *testing.T) {
	h, cluster := ownFixture(t, "web", devclustertest.Borrow)
	o := h.start().ready()
	h.awaitRevisions("web", "1:deployed")
	maps := h.client.CoreV1().ConfigMaps(h.namespace)
	for range map[bool]int{false: 1, true: 3}[devclustertest.Full()] {
		must(t, maps.Delete(h.ctx, "web", metav1.DeleteOptions{}))
		cluster.Restart(t)
		h.awaitConfigMap("web", "size", "small")
	}
	// It is counted at the end of the upgrade, when the ConfigMap has been back for a moment. Those above may not count:
	// an upgrade that the API server was lost in finds nothing absent when it is repeated.
	must(t, maps.Delete(h.ctx, "web", metav1.DeleteOptions{}))
	h.until("a healed release in the metrics", func() bool {
		n := o.metric("addon_operator_modules_helm_release_redeployed_total", `module="web"`)
		return n != "" && n != "0"
	})
	if code := o.terminate(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// definition is a chart's template of a CRD, whose objects have the field size.
func definition(kind, group string) string {
	plural := strings.ToLower(kind) + "s"
	return fmt.Sprintf("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s.%s}\nspec:\n  group: %s\n  scope: Namespaced\n  names: {plural: %s, kind: %s}\n"+
		"  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {size: {type: integer}}}}}]\n", plural, group, group, plural, kind)
}

func resource(kind, group string) string { return strings.ToLower(kind) + "s." + group }

// awaitObject waits until there is, or is not, an object with this name.
func (h *fixture) awaitObject(there bool, resource, name string) {
	h.t.Helper()
	h.eventually(fmt.Sprintf("%s %s exists: %v", resource, name, there), func() error {
		switch err := h.get(resource, name); {
		case there:
			return err
		case err == nil:
			return errors.New("it is there")
		}
		return nil
	})
}

// Somebody deletes CRDs that stand among the templates of one module, and objects of them in the release of a later
// one go with them. Both modules are healed without anybody's help, also when their order is the other one.
// F6, H13.
func TestDeletedCRDOfTemplates(t *testing.T) {
	kinds := []string{devclustertest.Kind("Rule"), devclustertest.Kind("Probe")}
	h := newFixture(t, "-- modules/values.yaml --\nbaseEnabled: true\nrulesEnabled: true\nrules: {size: 1}\n")
	group := h.namespace + ".example.com"
	for _, kind := range kinds {
		h.write("modules/010-base/templates/"+kind+".yaml", definition(kind, group))
		h.write("modules/360-rules/templates/"+kind+".yaml", fmt.Sprintf("apiVersion: %s/v1\nkind: %s\nmetadata: {name: rule}\nsize: {{ .Values.rules.size }}\n", group, kind))
		t.Cleanup(func() { _ = h.tryIn(context.Background(), "delete", "crd", resource(kind, group), "--wait=false") })
	}
	o := h.start().ready()
	h.awaitRevisions("rules", "1:deployed")
	for _, kind := range kinds {
		h.kubectl("delete", "crd", resource(kind, group))
		h.awaitObject(true, resource(kind, group), "rule")
	}
	o.expect("release is not as the module left it", "module=base")
}

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
