package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"addon-operator/testkit/faultproxy"
)

// A permission is taken from the Role while the operator runs: from the moment when the API server
// ends the watch, no hook runs with what was known before. What triggered it waits, others go on,
// and with the permission it runs, with what has come meanwhile. Issue 14, 1.4; C17, C36, C40.
func TestPermissionLostWhileItRuns(t *testing.T) {
	h := newFixture(t, "permission")
	h.grant("operator", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets", "events"}, Verbs: []string{"*"}})
	pods := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch"}}
	h.grant("pods", pods)
	config, err := clientcmd.BuildConfigFromFlags("", h.serviceAccount("operator"))
	must(t, err)
	proxy := faultproxy.New(t, config, 0) // which ends watches on demand
	h.kubeconfig = proxy.Kubeconfig(t)
	h.createPod("before")
	o := h.start().ready()
	h.createConfigMap("a", "x", map[string]string{"app": "watched"})
	h.awaitLines("out/both", "Added a, 1 pods")

	roles := h.client.RbacV1().Roles(h.namespace)
	role, err := roles.Get(h.ctx, "pods", metav1.GetOptions{})
	must(t, err)
	role.Rules = nil
	if role, err = roles.Update(h.ctx, role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.eventually("the loss is seen", func() error {
		proxy.CutWatches() // until the API server knows of it, it lets them begin again
		if got := o.metric("addon_operator_kube_binding_state", `hook="010-watch/hooks/both.sh"`, `binding="pods"`, `state="forbidden"`); got != "1" {
			return fmt.Errorf("kube_binding_state is %q", got)
		}
		return nil
	})
	h.createPod("meanwhile")
	h.createConfigMap("b", "x", map[string]string{"app": "watched"})
	o.expect("WARN hook is skipped: one of its bindings has no complete snapshot", "hook=010-watch/hooks/both.sh", "binding pods: not allowed to", "rbac generate")
	h.shows("what waits", func() string { return o.dump() }, "set aside until snapshots are complete: 1 task")
	h.createConfigMap("c", "x", map[string]string{"app": "watched"})
	h.awaitLines("out/maps", "Added a", "Added b", "Added c")
	if got := h.read("out/both"); got != "Added a, 1 pods\n" {
		t.Errorf("the hook ran without its snapshot:\n%s", got)
	}
	h.awaitEvent("SnapshotForbidden", "010-watch/hooks/both.sh", "may not read the objects of binding pods")
	const forbidden = "both.sh/pods Pod: forbidden (not allowed to "
	h.shows("/readyz?verbose", func() string { return o.body("/readyz?verbose") }, forbidden)
	h.shows("the dump", func() string { return o.dump() }, forbidden)

	role.Rules = []rbacv1.PolicyRule{pods}
	if _, err = roles.Update(h.ctx, role, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.awaitLines("out/both", "Added a, 1 pods", "Added b, 2 pods", "Added c, 2 pods")
}

// createPod makes a Pod that no node runs.
func (h *fixture) createPod(name string) {
	h.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: "nowhere", Containers: []corev1.Container{{Name: "c", Image: "example.org/none"}}},
	}
	must(h.t, second(h.client.CoreV1().Pods(h.namespace).Create(h.ctx, pod, metav1.CreateOptions{})))
}
