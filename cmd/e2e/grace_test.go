package e2e

import (
	"strings"
	"sync"
	"testing"

	"addon-operator/testkit/devclustertest"
	"addon-operator/testkit/faultproxy"
)

// A write of Helm does not come back when the operator is to stop. At the end of the grace period Helm stops writing, in the
// middle of the release, and the process ends in good order; the next operator brings the release to its end. F18.
func TestGracePeriodIsOver(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
webEnabled: true
-- modules/010-web/templates/a.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {text: there}}
-- modules/010-web/templates/later.yaml --
{apiVersion: v1, kind: Service, metadata: {name: later}, spec: {ports: [{port: 80}]}}
`)
	proxy := faultproxy.New(t, devclustertest.Start(t).RESTConfig(), 0)
	direct := h.kubeconfig
	h.kubeconfig = proxy.Kubeconfig(t)
	reached, release := make(chan bool), make(chan bool)
	var first, last sync.Once
	free := func() { last.Do(func() { close(release) }) }
	t.Cleanup(free)
	proxy.OnWrite(func(w faultproxy.Write) bool {
		if !strings.HasSuffix(w.Effect, " configmaps") || w.Done {
			return false
		}
		first.Do(func() { close(reached) })
		<-release
		return true
	})
	o := h.start("ADDON_OPERATOR_GRACE_PERIOD=1s")
	<-reached
	if code := o.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	o.expect("the grace period is over: Helm stops writing")
	o.expect("addon-operator has stopped")
	free()
	for _, object := range []string{"configmap/web", "service/later"} {
		if resource, name, _ := strings.Cut(object, "/"); h.get(resource, name) == nil {
			t.Errorf("%s was written", object)
		}
	}
	if got := h.revisions("web"); got != "1:failed" && got != "1:pending-install" {
		t.Errorf("revisions %s", got)
	}
	h.kubeconfig = direct
	h.start().ready()
	h.awaitConfigMap("web", "text", "there")
	h.awaitObject(true, "service", "later")
}
