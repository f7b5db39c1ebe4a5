package e2e

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Under maintenance the hooks of a module go on while its release is not touched, whatever
// happens to it; it is seen from every side. When maintenance is over, the module runs. H15.
func TestMaintenance(t *testing.T) {
	h := newFixture(t, "web")
	o := h.start().ready()
	h.awaitRevisions("web", "1:deployed")
	h.awaitJournal(startedJournal)

	h.setConfig(map[string]string{"webMaintenance": "NoResourceReconciliation"})
	o.expect("module is under maintenance", "module=web", "mode=NoResourceReconciliation")
	o.metric("addon_operator_mm_module_maintenance", `module="web"`, `state="NoResourceReconciliation"`)
	if err := h.client.CoreV1().ConfigMaps(h.namespace).Delete(h.ctx, "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.setConfig(map[string]string{"web": "size: big"})
	h.awaitJournal(startedJournal + " beforeHelm afterHelm")
	h.eventually("the end of the run", func() error {
		if !strings.Contains(o.dump(), "module/web ") || !strings.Contains(o.command("why", "web"), "left alone: the module is under maintenance") {
			return errors.New("it has not ended")
		}
		return nil
	})
	expectAll(t, o.dump(), "MAINTENANCE=NoResourceReconciliation")
	_, ready := get(o.public + "/readyz?verbose")
	expectAll(t, ready, "module web: ready MAINTENANCE=NoResourceReconciliation")
	expectAll(t, o.command("module", "list"), "ready, maintenance")
	expectAll(t, o.command("module", "list", "-o", "json"), `"maintenance": "NoResourceReconciliation"`)
	if got := h.revisions("web"); got != "1:deployed" || h.configMap("web") != nil {
		t.Errorf("the release was touched: revisions %s, object %v", got, h.configMap("web"))
	}

	h.setConfig(map[string]string{"webMaintenance": ""})
	h.awaitConfigMap("web", "size", "big")
	h.awaitRevisions("web", "1:superseded 2:deployed")
	if _, metrics := get(o.public + "/metrics"); strings.Contains(metrics, "mm_module_maintenance{") {
		t.Error("the metric shows maintenance that is over")
	}
}

// An unknown mode stops the start and names the file and the key. H15, D36.
func TestUnknownMaintenanceMode(t *testing.T) {
	h := newFixture(t, "web")
	h.write("modules/010-web/values.yaml", "webMaintenance: Manual\n")
	o := h.start()
	if code := o.exit(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	expectAll(t, strings.Join(o.output.lines(), "\n"), "values file 010-web/values.yaml: key webMaintenance: there is no maintenance mode", "NoResourceReconciliation")
}
