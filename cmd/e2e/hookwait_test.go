package e2e

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// waitingModules has a module whose chart has a Job as a Helm hook, and others around it.
const waitingModules = `
-- modules/values.yaml --
roomEnabled: true
firstEnabled: true
waitsEnabled: true
afterEnabled: true
-- modules/010-room/templates/config.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: room}}
-- modules/020-first/templates/config.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: first}, data: {text: there}}
-- modules/030-waits/templates/config.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: waits}, data: {text: there}}
-- modules/030-waits/templates/job.yaml --
apiVersion: batch/v1
kind: Job
metadata:
  name: job
  annotations: {helm.sh/hook: "post-install,pre-upgrade"}
spec:
  template:
    spec:
      restartPolicy: Never
      containers: [{name: c, image: none}]
-- modules/040-after/templates/config.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: after}, data: {text: there}}
`

// changePod waits for the Pod of a Job and changes its status: there are no nodes.
func (h *fixture) changePod(job string, change func(*corev1.PodStatus)) {
	h.t.Helper()
	pods := h.client.CoreV1().Pods(h.namespace)
	h.eventually("the status of the Pod of "+job, func() error {
		owner, err := h.client.BatchV1().Jobs(h.namespace).Get(h.ctx, job, metav1.GetOptions{}) // an earlier one may have left a Pod
		if err != nil {
			return err
		}
		list, err := pods.List(h.ctx, metav1.ListOptions{LabelSelector: batchv1.ControllerUidLabel + "=" + string(owner.UID)})
		if err != nil || len(list.Items) == 0 {
			return errors.Join(errNotYet, err)
		}
		change(&list.Items[0].Status)
		_, err = pods.UpdateStatus(h.ctx, &list.Items[0], metav1.UpdateOptions{})
		return err
	})
}

func (h *fixture) jobUID(name string) string {
	h.t.Helper()
	job, err := h.client.BatchV1().Jobs(h.namespace).Get(h.ctx, name, metav1.GetOptions{})
	must(h.t, err)
	return string(job.UID)
}

// A Helm hook whose Pod finds no node is shown everywhere. Under policy block modules before are healed and others
// deleted meanwhile; SIGTERM does not wait for it; the next operator, with isolate, parks the module, goes on waiting
// for the same Job, and a heal afterwards does not run it again. H14, F18, F19.
func TestHelmHookThatWaits(t *testing.T) {
	h := newFixture(t, waitingModules)
	o := h.start()
	h.changePod("job", func(s *corev1.PodStatus) {
		s.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}
	})
	o.expect("a Helm hook waits", "module=waits", "object=Job "+h.namespace+"/job", "state=Unschedulable", "0/3 nodes are available")
	job := h.jobUID("job")
	for command, want := range map[string][]string{
		"module list": {"Helm hook Job " + h.namespace + "/job has not finished", "Unschedulable", "until"},
		"why waits":   {"Helm hook Job " + h.namespace + "/job has not finished: Pod job-", "is Unschedulable (0/3 nodes are available)", ", until "},
	} {
		o.ask(command, want...)
	}
	if status, page := get("http://" + o.debug + "/"); status != http.StatusOK || !strings.Contains(page, "is Unschedulable (0/3 nodes are available)") {
		t.Errorf("the page does not show it: %d %s", status, page)
	}
	h.awaitEvent("Warning HelmHookWaits: RunModule waits: Helm hook Job " + h.namespace + "/job has not finished: Pod job-")

	h.deleteConfigMap("first")
	h.awaitConfigMap("first", "text", "there")
	h.setConfig(map[string]string{"roomEnabled": "false"})
	o.expect("module is deleted", "module=room")
	if h.configMap("after") != nil {
		t.Error("under policy block the module after it was installed")
	}

	if code := o.terminate(); code != 0 || o.count("the grace period is over") > 0 {
		t.Errorf("the stop waited for the hook; exit code %d", code)
	}
	h.awaitRevisions("waits", "1:failed")

	o = h.start("ADDON_OPERATOR_MODULE_FAILURE_POLICY=isolate").ready()
	h.awaitConfigMap("after", "text", "there")
	o.metric("addon_operator_module_parked", `module="waits"`)
	h.changePod("job", func(s *corev1.PodStatus) { s.Phase, s.Conditions = corev1.PodSucceeded, nil })
	h.awaitRevisions("waits", "1:deployed")
	h.kubectl("delete", "-n", h.namespace, "configmap", "waits")
	h.awaitConfigMap("waits", "text", "there")
	h.awaitRevisions("waits", "1:superseded 2:deployed")
	if h.jobUID("job") != job {
		t.Error("the hook has run more than once")
	}
}

// The Job of an earlier run has a finalizer, and Helm deletes it before it creates the hook again: what it waits for
// is shown. F19, H14.
func TestHelmHookThatIsNotDeleted(t *testing.T) {
	h := newFixture(t, waitingModules)
	jobs := h.client.BatchV1().Jobs(h.namespace)
	old := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job", Finalizers: []string{"example.com/hold"}}}
	old.Annotations = map[string]string{"helm.sh/hook": "pre-install"}
	old.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "none"}}}
	old, err := jobs.Create(h.ctx, old, metav1.CreateOptions{})
	must(t, err)
	free := func() error {
		return h.try("patch", "job", "job", "-n", h.namespace, "--type=merge", "-p", `{"metadata": {"finalizers": null}}`)
	}
	t.Cleanup(func() { _ = free() })
	o := h.start("ADDON_OPERATOR_MODULE_FAILURE_POLICY=isolate")
	text := "Helm hook Job " + h.namespace + "/job of an earlier run is still being deleted: Terminating (it is removed when its finalizers are removed: example.com/hold"
	o.expect("a Helm hook waits", "module=waits", "state=Terminating", "example.com/hold")
	h.awaitConfigMap("after", "text", "there")
	o.ask("module list", text)
	o.ask("why waits", text)
	h.awaitEvent("HelmHookWaits", text)
	must(t, free())
	h.eventually("the Job of this run", func() error {
		if job, err := jobs.Get(h.ctx, "job", metav1.GetOptions{}); err != nil || job.UID == old.UID {
			return errors.Join(errNotYet, err)
		}
		return nil
	})
	h.changePod("job", func(s *corev1.PodStatus) { s.Phase = corev1.PodSucceeded })
	h.awaitRevisions("waits", "1:deployed")
}
