package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"

	"addon-operator/testkit/devclustertest"
)

const modulesOfObjects = `A module with hooks, one whose chart is broken, and one that is disabled.

-- modules/values.yaml --
webEnabled: true
brokenEnabled: true
-- modules/010-web/values.yaml --
web: {size: small}
-- modules/010-web/Chart.yaml --
name: web
version: 1.2.3
appVersion: v9
-- modules/010-web/templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {size: {{ .Values.web.size | quote }}}}
-- modules/010-web/hooks/count.sh --
#!/usr/bin/env bash
[[ ${1:-} == --config ]] && { echo '{"configVersion": "v1", "beforeHelm": 1}'; exit; }
echo ran >> "$OUT/journal"
-- modules/020-broken/templates/cm.yaml --
{{ fail "this chart is broken" }}
-- modules/030-off/Chart.yaml --
name: off
version: 0.1.0
`

// Objects of kind Module on a real API server, with kubectl: without the kind, and when it appears; what they show;
// kubectl wait; a run and a retry that are requested; a module that is suspended, over a change of the leader; one
// that is removed; without the right to them. J14–J17, H27.
func TestModuleObjects(t *testing.T) {
	t.Parallel()
	h := fixtureOn(t, devclustertest.Borrow(t), modulesOfObjects)
	crd := h.definition()
	patient := append(slices.Clone(patient), "ADDON_OPERATOR_HA=true", "DEBUG_UNIX_SOCKET=", "ADDON_OPERATOR_MODULE_FAILURE_POLICY=isolate")
	first := h.start(append(patient, "ADDON_OPERATOR_POD=first")...)
	first.expect("the kind Module does not exist in the cluster")
	h.awaitRevisions("web", "1:deployed")

	h.kubectl("apply", "-f", crd)
	h.awaitModule("web", "ready", "True")
	h.awaitModule("broken", "starting", "False")
	h.awaitModule("off", "disabled", "True")
	table := h.printed("get", "modules", "-n", h.namespace)
	for _, row := range []string{
		`NAME +READY +PHASE +OBJECTS +VERSION +LAST RUN +MESSAGE\n`,
		`broken +False +starting +[^\n]*the chart does not load or render; broken/templates/cm\.yaml:1; the log and 'addon-operator why' have the details`,
		`off +True +disabled +disabled: no flag anywhere \(offEnabled\); 'addon-operator values set offEnabled true' enables it`,
		`web +True +ready +1/1 +1\.2\.3 +\d+s +installed`,
	} {
		if !regexp.MustCompile(row).MatchString(table) {
			t.Errorf("no row %s in\n%s", row, table)
		}
	}
	if wide := h.printed("get", "modules", "web", "-o", "wide", "-n", h.namespace); !strings.Contains(wide, "v9") || !strings.Contains(wide, "webEnabled is true in ") {
		t.Errorf("nothing of the version and of what enables it in\n%s", wide)
	}
	for name, want := range map[string]status.Status{"web": status.CurrentStatus, "off": status.CurrentStatus} {
		if got, err := status.Compute(h.module(name)); err != nil || got.Status != want {
			t.Errorf("kstatus says of %s %+v, %v; want %s", name, got, err, want)
		}
	}

	h.write("modules/020-broken/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: broken}\n")
	first.ask("retry broken", "module broken in namespace "+h.namespace+" is retried")
	h.kubectl("wait", "--for=condition=Ready", "module", "--all", "--timeout=60s", "-n", h.namespace)

	runs := strings.Count(h.journal(), "ran")
	h.request("web", "requestedAt", "monday")
	h.kubectl("wait", "--for=jsonpath={.status.lastHandledRequestedAt}=monday", "module/web", "--timeout=60s", "-n", h.namespace)
	h.kubectl("wait", "--for=condition=Ready", "module/web", "--timeout=60s", "-n", h.namespace)
	if got := strings.Count(h.journal(), "ran"); got != runs+1 {
		t.Errorf("after a request the module has run %d times, want %d", got, runs+1)
	}

	first.ask("suspend web", "module web in namespace "+h.namespace+" is suspended")
	h.awaitModule("web", "suspended", "False")
	expectAll(t, first.command("module", "list"), "suspended")
	if first.metric("addon_operator_mm_module_maintenance", `module="web"`, `state="Suspended"`) != "1" {
		t.Error("no metric shows that the module is suspended")
	}
	version := h.module("web").GetResourceVersion()
	second := h.start(append(patient, "ADDON_OPERATOR_POD=second")...)
	second.expect("another replica holds the lease")
	first.kill()
	second.expect("this replica leads")
	second.ready()
	h.setConfig(map[string]string{"web": "size: big"})
	h.request("off", "requestedAt", "tuesday")
	h.until("a request to a module that is disabled is handled", func() bool {
		handled, _, _ := unstructured.NestedString(h.module("off").Object, "status", "lastHandledRequestedAt")
		return handled == "tuesday"
	})
	if size := h.configMap("web")["size"]; size != "small" {
		t.Errorf("a module that is suspended was upgraded: %s", size)
	}
	if got := strings.Count(h.journal(), "ran"); got != runs+1 {
		t.Errorf("a hook of a module that is suspended has run: %d times", got)
	}
	if now := h.module("web"); now.GetResourceVersion() != version {
		t.Logf("the new leader has written what it knows of it: %v", now.Object["status"])
	}
	second.ask("resume web", "module web in namespace "+h.namespace+" is resumed")
	h.awaitConfigMap("web", "size", "big")
	h.awaitModule("web", "ready", "True")

	h.remove("modules/030-off")
	h.setConfig(map[string]string{"global": "again: 1"})
	h.eventually("the object of a module that is gone is deleted", func() error {
		if h.module("off") != nil {
			return errors.New("it is there")
		}
		return nil
	})
	if code := second.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}

	h.grant("operator", rbacv1.PolicyRule{APIGroups: []string{"", "coordination.k8s.io"}, Resources: []string{"configmaps", "secrets", "events", "leases"}, Verbs: []string{"*"}})
	h.kubeconfig = h.serviceAccount("operator")
	third := h.start(append(patient, "ADDON_OPERATOR_POD=third")...).ready()
	third.expect("objects of kind Module cannot be used", "forbidden")
	h.awaitEvent("ModuleObjectsForbidden")
	if n := third.count("objects of kind Module cannot be used"); n != 1 {
		t.Errorf("the log says %d times that objects cannot be used", n)
	}
}

// definition returns the file of the kind Module, which is removed from the cluster when the test ends.
func (h *fixture) definition() string {
	h.t.Cleanup(func() {
		cmd := exec.Command(h.tools+"/kubectl", "--kubeconfig", h.kubeconfig, "delete", "crd", "modules.addon-operator.io", "--ignore-not-found", "--timeout=1m") // gone, for who borrows the cluster next
		_ = cmd.Run()                                                                                                                                             // the cluster may be gone
	})
	return "../../deploy/chart/module-crd.yaml"
}

// printed is what kubectl prints.
func (h *fixture) printed(args ...string) string {
	h.t.Helper()
	cmd := exec.CommandContext(h.ctx, h.tools+"/kubectl", append([]string{"--kubeconfig", h.kubeconfig}, args...)...)
	output, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("kubectl %s: %v\n%s", args, err, output)
	}
	return string(output)
}

// module reads an object of kind Module; nil while there is none.
func (h *fixture) module(name string) *unstructured.Unstructured {
	h.t.Helper()
	data, err := h.client.CoreV1().RESTClient().Get().AbsPath("/apis/addon-operator.io/v1alpha1/namespaces/" + h.namespace + "/modules/" + name).DoRaw(h.ctx)
	object := &unstructured.Unstructured{}
	if err != nil || object.UnmarshalJSON(data) != nil {
		return nil
	}
	return object
}

// awaitModule waits until an object shows a phase, and a status of its condition Ready.
func (h *fixture) awaitModule(name, phase, ready string) {
	h.t.Helper()
	h.eventually("object of module "+name, func() error {
		object := h.module(name)
		if object == nil {
			return errNotYet
		}
		now, _, _ := unstructured.NestedString(object.Object, "status", "phase")
		conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
		for _, one := range conditions {
			if c, ok := one.(map[string]any); ok && c["type"] == "Ready" && now == phase && c["status"] == ready {
				return nil
			}
		}
		return fmt.Errorf("it is %s: %v", now, conditions)
	})
}

func (h *fixture) request(module, annotation, value string) {
	h.t.Helper()
	h.kubectl("annotate", "--overwrite", "module", module, "addon-operator.io/"+annotation+"="+value, "-n", h.namespace)
}
