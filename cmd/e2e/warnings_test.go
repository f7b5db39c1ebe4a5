package e2e

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What the API server warns of, such as a misspelt field, names the module and the object, whether Helm writes it or a hook.
// J13.
func TestWarningsOfTheAPIServer(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
oddEnabled: true
-- modules/010-odd/Chart.yaml --
apiVersion: v2
name: odd
version: 1.0.0
-- modules/010-odd/templates/a.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: odd}
datta: {size: {{ .Values.odd.size | quote }}}
-- modules/010-odd/hooks/h.sh --
#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then echo '{"configVersion": "v1", "onStartup": 1}'; exit; fi
echo '{"operation": "CreateOrUpdate", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "patched", "namespace": "'$NAMESPACE'"}, "dataa": {}}}' > "$KUBERNETES_PATCH_PATH"
`)
	o := h.start()
	o.expect("WARN the API server returned a warning for an object patch", `unknown field "dataa"`, "object=ConfigMap "+h.namespace+"/patched", "hook=010-odd/hooks/h.sh", "module=odd")
	o.expect("WARN the API server returned a warning for an object of the release", `unknown field "datta"`, "object=configmaps "+h.namespace+"/odd", "module=odd")
	o.ready()
	for _, field := range []string{"dataa", "datta"} {
		if n := o.count(`unknown field "` + field + `"`); n != 1 {
			t.Errorf("%s is logged %d times, want once", field, n)
		}
	}
}

// An object that exists, with another value in a field that Kubernetes never changes, is recreated at the first install,
// which adopts it, and when the record of the release is lost. H3, H9.
func TestRecreateWhatIsAdopted(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
fixedEnabled: true
fixed: {app: one}
-- modules/010-fixed/Chart.yaml --
apiVersion: v2
name: fixed
version: 1.0.0
annotations: {addon-operator/recreate: Deployment}
-- modules/010-fixed/templates/a.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: app}
spec:
  replicas: 0
  selector: {matchLabels: {app: {{ .Values.fixed.app }}}}
  template:
    metadata: {labels: {app: {{ .Values.fixed.app }}}}
    spec: {containers: [{name: c, image: none}]}
`)
	labels := map[string]string{"app": "zero"}
	deployments, none := h.client.AppsV1().Deployments(h.namespace), int32(0)
	_, err := deployments.Create(h.ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "app"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &none, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "none"}}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	selects := func(want string) {
		t.Helper()
		app, err := deployments.Get(h.ctx, "app", metav1.GetOptions{})
		if err != nil || app.Spec.Selector.MatchLabels["app"] != want {
			t.Errorf("the Deployment: %v, %v; want one that selects %s", app.Spec.Selector, err, want)
		}
	}
	o := h.start().ready()
	selects("one")
	h.awaitRevisions("fixed", "1:deployed")
	o.expect("WARN an object is deleted and created again", "object=Deployment "+h.namespace+"/app")
	if code := o.terminate(); code != 0 {
		t.Errorf("exit code %d", code)
	}

	if err := h.client.CoreV1().Secrets(h.namespace).DeleteCollection(h.ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "owner=helm"}); err != nil {
		t.Fatal(err)
	}
	h.setConfig(map[string]string{"fixed": "app: two"})
	o = h.start().ready()
	selects("two")
	h.awaitRevisions("fixed", "1:deployed")
	o.expect("WARN an object is deleted and created again", "object=Deployment "+h.namespace+"/app")
}

// HELM_TIMEOUT ends the waiting for a Helm hook that does not finish; the module recovers when its chart does. H7.
func TestHelmTimeout(t *testing.T) {
	h := newFixture(t, "web")
	const pod = "modules/010-web/templates/pod.yaml"
	h.write(pod, strings.TrimSpace(`
apiVersion: v1
kind: Pod
metadata:
  name: endless
  annotations: {helm.sh/hook: "pre-install,pre-upgrade", helm.sh/hook-delete-policy: "before-hook-creation,hook-failed"}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: none}]
`))
	o := h.start("HELM_TIMEOUT=1s")
	line := o.expect("ERROR", "task failed, will retry", "module=web", "attempt=1")
	expectAll(t, line, "endless", "did not finish within 1s")
	h.remove(pod)
	h.setConfig(map[string]string{"global": "fixed: yes"}) // which cuts the waiting short
	o.ready()
	h.eventually("the release", func() error {
		if !strings.HasSuffix(h.revisions("web"), ":deployed") {
			return errNotYet
		}
		return nil
	})
}
