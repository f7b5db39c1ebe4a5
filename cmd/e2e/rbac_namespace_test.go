package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// With the roles that 'rbac generate' prints a module whose release lies in a namespace of its own is installed,
// changed, healed and removed, and misses nothing. A namespace that is not there, for which the rules could not be
// applied, is named, with the module and what to do. H20.
func TestNamespaceOfModuleWithGeneratedRoles(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
webEnabled: true
-- modules/010-web/values.yaml --
web: {text: one}
-- modules/010-web/templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {text: {{ .Values.web.text }}}}
-- modules/020-far/templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: far}}
`)
	own, none := h.helm().namespace, h.namespace+"-none"
	h.write("modules/010-web/module.yaml", "namespace: "+own+"\n")
	h.write("modules/020-far/module.yaml", "namespace: "+none+"\n")
	administrator, roles := h.client, h.generated("--watch-charts")
	var now, later []*unstructured.Unstructured
	for _, role := range roles {
		if role.GetNamespace() == none {
			later = append(later, role)
		} else {
			now = append(now, role)
		}
	}
	h.apply(now, false)
	h.become()
	o := h.start("ADDON_OPERATOR_MODULE_FAILURE_POLICY=isolate").ready()
	inOwn := func(want string) {
		t.Helper()
		h.eventually("the ConfigMap of web has "+want, func() error {
			cm, err := h.client.CoreV1().ConfigMaps(own).Get(h.ctx, "web", metav1.GetOptions{})
			if err == nil && cm.Data["text"] != want {
				err = errNotYet
			}
			return err
		})
	}
	inOwn("one")
	h.setConfig(map[string]string{"web": "text: two"})
	inOwn("two")
	must(t, h.client.CoreV1().ConfigMaps(own).Delete(h.ctx, "web", metav1.DeleteOptions{}))
	inOwn("two")
	h.setConfig(map[string]string{"webEnabled": "false", "farEnabled": "true"})
	h.eventually("the end of the release", func() error {
		left, err := h.client.CoreV1().Secrets(own).List(h.ctx, metav1.ListOptions{LabelSelector: "owner=helm"})
		if err == nil && len(left.Items) > 0 {
			err = errNotYet
		}
		return err
	})
	o.expect("ERROR", "module=far", "release far", "in namespace "+none, "forbidden", "'addon-operator rbac generate' prints all permissions that it needs")
	if n, known := o.count("forbidden"), o.count("forbidden", none); n != known {
		t.Errorf("%d lines of the log say forbidden, %d of them about the namespace that is missing", n, known)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: none}}
	must(t, second(administrator.CoreV1().Namespaces().Create(h.ctx, namespace, metav1.CreateOptions{})))
	h.apply(later, false)
	h.eventually("release far", func() error {
		_, err := h.client.CoreV1().ConfigMaps(none).Get(h.ctx, "far", metav1.GetOptions{})
		return err
	})
}
