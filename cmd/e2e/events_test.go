package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// createConfigMap makes a ConfigMap that the hooks of events.txtar watch, or do not.
func (h *fixture) createConfigMap(name, key string, labels map[string]string) *corev1.ConfigMap {
	h.t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Data: map[string]string{"key": key}}
	cm, err := h.client.CoreV1().ConfigMaps(h.namespace).Create(h.ctx, cm, metav1.CreateOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	return cm
}

func (h *fixture) updateConfigMap(cm *corev1.ConfigMap) *corev1.ConfigMap {
	h.t.Helper()
	cm, err := h.client.CoreV1().ConfigMaps(h.namespace).Update(h.ctx, cm, metav1.UpdateOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	return cm
}

func (h *fixture) deleteConfigMap(name string) {
	h.t.Helper()
	if err := h.client.CoreV1().ConfigMaps(h.namespace).Delete(h.ctx, name, metav1.DeleteOptions{}); err != nil {
		h.t.Fatal(err)
	}
}

// What happens to matching objects reaches the hook, and nothing else does: no other
// labels, no change that the filter does not show; v0 has the coordinates. C22, C31, C32, C38.
func TestKubernetesEventsReachHooks(t *testing.T) {
	h := newFixture(t, "events")
	watched := map[string]string{"app": "watched"}
	h.createConfigMap("early", "one", watched)
	h.start().ready()
	h.awaitJournal("Synchronization:early")

	late := h.createConfigMap("late", "one", watched)
	h.awaitJournal("Synchronization:early Added:late:one")
	h.createConfigMap("other", "one", map[string]string{"app": "other"})
	late.Annotations = map[string]string{"no": "matter"}
	late = h.updateConfigMap(late)
	late.Data["key"] = "two"
	late = h.updateConfigMap(late)
	h.awaitJournal("Synchronization:early Added:late:one Modified:late:two")
	late.Labels = nil
	h.updateConfigMap(late) // for the watch it is gone
	h.awaitJournal("Synchronization:early Added:late:one Modified:late:two Deleted:late:two")
	h.deleteConfigMap("early")
	h.awaitJournal("Synchronization:early Added:late:one Modified:late:two Deleted:late:two Deleted:early:one")

	prefix := "onKubernetesEvent:"
	want := prefix + "add:" + h.namespace + "/ConfigMap/late\n" + prefix + "delete:" + h.namespace + "/ConfigMap/late\n" + prefix + "delete:" + h.namespace + "/ConfigMap/early\n"
	h.eventually("the v0 hook", func() error {
		if len(h.read("out/v0")) < len(want) {
			return errNotYet
		}
		return nil
	})
	if got := h.read("out/v0"); !strings.EqualFold(got, want) {
		t.Errorf("the v0 hook got\n%s\nwant\n%s", got, want)
	}
}

// A Secret is changed, the hook puts it into the values, the module is upgraded. The walk
// Design 3; G10, G14, D27.
func TestChangedSecretLeadsToAnUpgrade(t *testing.T) {
	h := newFixture(t, "secret")
	secrets := h.client.CoreV1().Secrets(h.namespace)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "token"}, StringData: map[string]string{"token": "first"}}
	secret, err := secrets.Create(h.ctx, secret, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	o := h.start().ready()
	h.awaitConfigMap("copy", "token", "first")
	h.awaitJournal("token.Synchronization beforeHelm.")

	secret.Data["token"] = []byte("second")
	if secret, err = secrets.Update(h.ctx, secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.awaitConfigMap("copy", "token", "second")
	h.awaitJournal("token.Synchronization beforeHelm. token.EventModified beforeHelm.")
	h.awaitRevisions("copy", "1:superseded 2:deployed")

	secret.Labels = map[string]string{"no": "matter"}
	if _, err := secrets.Update(h.ctx, secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := secrets.Delete(h.ctx, "token", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.awaitConfigMap("copy", "token", "none")
	h.awaitJournal("token.Synchronization beforeHelm. token.EventModified beforeHelm. token.EventDeleted beforeHelm.")
	if log := strings.Join(o.output.lines(), "\n"); strings.Contains(log, "second") {
		t.Errorf("the value of the Secret is in the log:\n%s", log)
	}
}

// Schedules tick when the first converge is over, global ones in a queue of their own,
// too; the allowed failure of one stops nothing. C12–C14, F12.
func TestSchedulesTickAfterTheFirstConverge(t *testing.T) {
	h := newFixture(t, "schedule")
	o := h.start("LOG_LEVEL=debug")
	o.expect("tick dropped", "@every 1s")
	o.expect("tick dropped", "@every 1s")
	if got := h.read("out/global") + h.read("out/module"); got != "" {
		t.Errorf("a schedule ticked during the first converge: %s", got)
	}
	h.write("out/go", "")
	o.ready()
	h.eventually("two ticks of each schedule", func() error {
		if strings.Count(h.read("out/global"), "[") < 2 || strings.Count(h.read("out/module"), "[") < 2 {
			return errNotYet
		}
		return nil
	})
	first, _, _ := strings.Cut(h.read("out/global"), "]")
	sameJSON(t, "the context of the global hook", first+"]", `[{"binding":"every-second", "type":"Schedule"}]`)
	first, _, _ = strings.Cut(h.read("out/module"), "]")
	sameJSON(t, "the context of the module's hook", first+"]", `[{"binding":"schedule", "type":"Schedule"}]`)
	o.expect("WARN", "its failure is allowed", "module=tick")
}
