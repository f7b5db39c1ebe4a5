package e2e

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// everySecond looks for drift more often than five minutes allow.
func everySecond() string { return limited(limits{DriftPeriod: time.Second}) }

// What somebody changes of the objects of a module is shown by every command and page, with the values
// of Secrets masked, or put back. Issue 6.5.
func TestDrift(t *testing.T) {
	h := newFixture(t, "web")
	h.write("modules/010-web/templates/secret.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData: {password: hunter2}\n")
	o := h.start("ADDON_OPERATOR_DRIFT=report", everySecond()).ready()
	h.awaitRevisions("web", "1:deployed")
	change := func() {
		t.Helper()
		_, err := h.client.CoreV1().ConfigMaps(h.namespace).Patch(h.ctx, "web", types.MergePatchType, []byte(`{"data":{"size":"huge","mine":"too"}}`), metav1.PatchOptions{})
		_, err2 := h.client.CoreV1().Secrets(h.namespace).Patch(h.ctx, "web", types.MergePatchType, []byte(`{"data":{"password":"bXk="}}`), metav1.PatchOptions{})
		must(t, errors.Join(err, err2))
	}
	change()
	o.expect("an object of the module was changed by another client", "module=web", "object=ConfigMap "+h.namespace+"/web", "fields=[data.size]")
	drifted := func() string { return o.metric("addon_operator_module_drifted_objects", `module="web"`) }
	h.until("the look that sees both", func() bool { return drifted() == "2" })
	expectAll(t, o.command("module", "drift", "web"), "OBJECT", "ConfigMap "+h.namespace+"/web  data.size", `"huge"`, `"small"`, "data.password", `"***"`)
	expectAll(t, o.command("module", "drift", "web", "--show-secrets"), `"bXk="`)
	expectAll(t, o.dump(), "DRIFT=2 objects")
	if o.count("hunter2")+o.count("aHVudGVyMg==")+o.count("bXk=") > 0 {
		t.Error("the log shows a secret")
	}
	if h.revisions("web") != "1:deployed" || h.configMap("web")["size"] != "huge" {
		t.Error("a report has changed something")
	}
	if code := o.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}

	o = h.start("ADDON_OPERATOR_DRIFT=correct", everySecond()).ready()
	h.awaitConfigMap("web", "size", "small")
	o.expect("release", "action=upgraded", "module=web", "changed by others")
	if h.configMap("web")["mine"] != "too" {
		t.Error("a field that the chart does not set was touched")
	}
	h.until("the last look", func() bool { return drifted() == "0" })
	o.metric("addon_operator_module_drift_corrections_total", `module="web"`)
	expectAll(t, o.command("why", "web"), "because of Drift: ConfigMap "+h.namespace+"/web: data.size")
	expectAll(t, o.command("module", "drift", "web"), "No object was changed")
}
