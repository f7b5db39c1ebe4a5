package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"addon-operator/kube/apiserver"
	"addon-operator/testkit/devclustertest"
)

// aggregated is an API server of its own behind the one of the cluster.
type aggregated struct {
	*apiserver.Server
	fixture *fixture
	down    atomic.Bool
}

// sideGroup is its group; the name of its APIService is sideService.
const (
	sideGroup   = "side.example.com"
	sideService = "v1beta1." + sideGroup
)

// aggregate starts an API server in memory and registers it with the cluster, which the test
// has for itself.
func aggregate(h *fixture) *aggregated {
	h.t.Helper()
	a := &aggregated{Server: apiserver.New("v1.36.0"), fixture: h}
	a.EnsureNamespace(h.namespace)
	err := a.Apply(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "things." + sideGroup},
		"spec": map[string]any{
			"group": sideGroup, "scope": "Namespaced", "names": map[string]any{"plural": "things", "singular": "thing", "kind": "Thing"},
			"versions": []any{map[string]any{"name": "v1beta1", "served": true, "storage": true}},
		},
	})
	must(h.t, err)
	web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.down.Load() {
			panic(http.ErrAbortHandler)
		}
		a.ServeHTTP(w, r)
	}))
	h.t.Cleanup(web.CloseClientConnections)
	port := web.Listener.Addr().(*net.TCPAddr).Port
	h.write("service.yaml", fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: side, namespace: %s}
spec: {type: ExternalName, externalName: 127.0.0.1, ports: [{port: %d}]}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: %s}
spec:
  group: %s
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: side, namespace: %s, port: %d}
`, h.namespace, port, sideService, sideGroup, h.namespace, port))
	h.kubectl("apply", "-f", h.path("service.yaml"))
	h.t.Cleanup(func() { // the cluster may serve another test; kubectl may go through a proxy that has ended
		err := h.client.CoreV1().RESTClient().Delete().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices/" + sideService).Do(context.Background()).Error()
		if err != nil {
			h.t.Error(err)
		}
	})
	a.await("True")
	// An APIService is available before discovery has asked it: until then its kinds are stale to every client.
	h.eventually("its kinds in discovery", func() error {
		_, _, err := h.client.Discovery().ServerGroupsAndResources()
		return err
	})
	return a
}

// goDown ends all connections and answers none, until come.
func (a *aggregated) goDown() {
	a.down.Store(true)
	a.await("False")
}

func (a *aggregated) come() {
	a.down.Store(false)
	a.await("True")
}

// await waits until the cluster says whether it reaches the server; a change of the
// APIService makes it look at once.
func (a *aggregated) await(available string) {
	a.fixture.t.Helper()
	n := 0
	a.fixture.eventually("APIService available: "+available, func() error {
		n++
		patch := fmt.Appendf(nil, `{"metadata": {"annotations": {"test/looks": "%s%d"}}}`, available, n)
		data, err := a.fixture.client.CoreV1().RESTClient().Patch(types.MergePatchType).
			AbsPath("/apis/apiregistration.k8s.io/v1/apiservices/" + sideService).Body(patch).DoRaw(a.fixture.ctx)
		if err != nil {
			return err
		}
		var service struct {
			Status struct {
				Conditions []metav1.Condition `json:"conditions"`
			} `json:"status"`
		}
		if err := json.Unmarshal(data, &service); err != nil {
			return err
		}
		for _, c := range service.Status.Conditions {
			if c.Type == "Available" && string(c.Status) == available {
				return nil
			}
		}
		return fmt.Errorf("%+v", service.Status.Conditions)
	})
}

const awayModules = `
-- modules/values.yaml --
guardEnabled: true
thingsEnabled: true
moreEnabled: true
plainEnabled: true
-- modules/010-guard/values.yaml --
guard: {size: small}
-- modules/010-guard/templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: guard}, data: {size: {{ .Values.guard.size }}}}
---
{{- if .Capabilities.APIVersions.Has "side.example.com/v1beta1" }}
{apiVersion: v1, kind: ConfigMap, metadata: {name: guarded-by-version}}
{{- end }}
---
{{- if .Capabilities.APIVersions.Has "side.example.com/v1beta1/Thing" }}
{apiVersion: v1, kind: ConfigMap, metadata: {name: guarded-by-kind}}
{{- end }}
-- modules/020-things/templates/thing.yaml --
{apiVersion: side.example.com/v1beta1, kind: Thing, metadata: {name: thing}}
-- modules/025-more/values.yaml --
more: {size: small}
-- modules/025-more/templates/thing.yaml --
{apiVersion: side.example.com/v1beta1, kind: Thing, metadata: {name: more}, spec: {size: {{ .Values.more.size }}}}
-- modules/030-plain/values.yaml --
plain: {size: small}
-- modules/030-plain/templates/cm.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: plain}
data: {size: {{ .Values.plain.size }}, apps: {{ .Capabilities.APIVersions.Has "apps/v1/Deployment" | quote }}}
`

// has is whether a thing exists.
func (a *aggregated) has(name string) bool {
	return a.Object(sideGroup+"/v1beta1", "Thing", a.fixture.namespace, name) != nil
}

// guarded expects both objects that the chart has only while the API is there.
func (a *aggregated) guarded() {
	a.fixture.t.Helper()
	for _, name := range []string{"guarded-by-version", "guarded-by-kind"} {
		if err := a.fixture.get("configmap", name); err != nil {
			a.fixture.t.Errorf("an object went with its API: %v", err)
		}
	}
}

// While an aggregated API is down, nothing that depends on it is deleted or forgotten: charts
// that ask about its kinds wait; a module whose object it holds
// keeps its release until the object can be deleted. Other modules go on. P13.
func TestAggregatedAPIIsDown(t *testing.T) {
	h, _ := ownFixture(t, awayModules, devclustertest.Borrow)
	side := aggregate(h)
	o := h.start("ADDON_OPERATOR_DRIFT=report").ready()
	h.awaitRevisions("things", "1:deployed")
	if !side.has("thing") || !side.has("more") {
		t.Fatal("the things are not deployed")
	}
	side.guarded()

	side.goDown()
	h.setConfig(map[string]string{"guard": "size: big"})
	o.expect("task failed", "module=guard", sideGroup+"/v1beta1", sideService)
	side.guarded()
	h.setConfig(map[string]string{"thingsEnabled": "false", "more": "size: big", "plain": "size: big"})
	o.expect("task failed", "module=more", sideGroup+"/v1beta1", sideService)
	o.expect("task failed", "module=things", sideGroup+"/v1beta1", sideService)
	o.expect("module is parked", "module=things")
	h.awaitConfigMap("plain", "size", "big")
	h.awaitRevisions("things", "1:deployed")
	h.awaitRevisions("more", "1:deployed")
	if n := o.count("release is not as the module left it"); n > 0 {
		t.Errorf("objects of the API count as absent: %d times", n)
	}
	expectAll(t, o.ask("module list"), "things", sideService)
	expectAll(t, o.ask("why things"), sideService)

	o.kill()
	h.setConfig(map[string]string{"guard": "size: huge", "plain": "size: huge"})
	o = h.start()
	o.expect("task failed", "module=guard", sideGroup+"/v1beta1", sideService)
	o.expect("task failed", "module=more", sideGroup+"/v1beta1", sideService)
	o.expect("task failed", "module=things", sideGroup+"/v1beta1", sideService)
	h.awaitConfigMap("plain", "size", "huge")
	o.ready()
	plan := o.command("plan")
	expectAll(t, plan, "cannot be predicted", sideService)
	if strings.Contains(plan, "delete") && !strings.Contains(plan, "0 to delete") {
		t.Errorf("the plan deletes:\n%s", plan)
	}
	expectAll(t, o.command("rbac", "generate"), "module things", "so the kinds of the API "+sideGroup, "warning: the kinds of "+sideGroup, sideService)
	h.awaitConfigMap("guard", "size", "small")
	side.guarded()
	h.awaitRevisions("things", "1:deployed")
	h.awaitRevisions("more", "1:deployed")
	if !side.has("thing") || !side.has("more") {
		t.Error("a thing is gone")
	}

	side.come()
	h.awaitConfigMap("guard", "size", "huge")
	side.guarded()
	h.awaitRevisions("things", "")
	h.awaitRevisions("more", "1:superseded 2:deployed")
	if side.has("thing") || !side.has("more") {
		t.Errorf("the thing is there: %t, the other one: %t", side.has("thing"), side.has("more"))
	}
}

const backModules = `
-- modules/values.yaml --
webEnabled: true
-- modules/010-web/values.yaml --
web: {size: small}
-- modules/010-web/Chart.yaml --
name: web
version: 1.0.0
-- modules/010-web/templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {size: {{ .Values.web.size }}}}
-- modules/010-web/hooks/watch.sh --
#!/usr/bin/env bash
set -euo pipefail
if [[ ${1:-} == --config ]]; then
  cat <<END
configVersion: v1
kubernetes:
- name: w
  apiVersion: v1
  kind: ConfigMap
  labelSelector: {matchLabels: {watched: "yes"}}
  jqFilter: .data.v
  includeSnapshotsFrom: [w]
END
  exit
fi
jq -r '.[] | .type + " " + ([.snapshots.w[].filterResult] | join(","))' "$BINDING_CONTEXT_PATH" >> "$OUT/journal"
`

// watched makes or changes an object that the hook watches.
func (h *fixture) watched(name, v string) {
	h.t.Helper()
	maps := h.client.CoreV1().ConfigMaps(h.namespace)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"watched": "yes"}}, Data: map[string]string{"v": v}}
	if _, err := maps.Update(h.ctx, object, metav1.UpdateOptions{}); err == nil {
		return
	}
	must(h.t, second(maps.Create(h.ctx, object, metav1.CreateOptions{})))
}

// After a restore of etcd under a running operator the process ends and says why; started again, it begins with what
// the cluster has. P14.
func TestClusterGoesBack(t *testing.T) {
	h, cluster := ownFixture(t, backModules, devclustertest.Borrow)
	o := h.start().ready()
	h.setConfig(map[string]string{"web": "size: early"})
	h.awaitConfigMap("web", "size", "early")
	h.watched("one", "a")
	h.awaitLine("out/journal", "Event a")
	restore := cluster.Backup(t)

	h.setConfig(map[string]string{"web": "size: late"})
	h.awaitConfigMap("web", "size", "late")
	h.awaitRevisions("web", "1:superseded 2:superseded 3:deployed")
	h.watched("one", "b")
	for i := range 100 { // so that it takes long until the versions are reached again
		h.watched("busy", fmt.Sprint(i))
	}
	h.awaitLine("out/journal", "Event 99,b")

	restore()
	if code := o.exit(); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	o.expect("the API server has gone back to an earlier state, as after a restore of etcd")
	h.start().ready()
	h.awaitLine("out/journal", "Synchronization a")
	h.awaitConfigMap("web", "size", "early")
	h.awaitRevisions("web", "1:superseded 2:deployed")
	h.setConfig(map[string]string{"web": "size: new"})
	h.awaitConfigMap("web", "size", "new")
	h.awaitRevisions("web", "1:superseded 2:superseded 3:deployed")
	h.watched("one", "c")
	h.awaitLine("out/journal", "Event c")
}
