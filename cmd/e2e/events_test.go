package e2e

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// createConfigMap makes a ConfigMap that the hooks of events.txtar watch, or do not.
func (h *fixture) createConfigMap(name, key string, labels map[string]string) *corev1.ConfigMap {
	h.t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Data: map[string]string{"key": key}}
	cm, err := h.client.CoreV1().ConfigMaps(h.namespace).Create(h.ctx, cm, metav1.CreateOptions{})
	must(h.t, err)
	return cm
}

func (h *fixture) updateConfigMap(cm *corev1.ConfigMap) *corev1.ConfigMap {
	h.t.Helper()
	cm, err := h.client.CoreV1().ConfigMaps(h.namespace).Update(h.ctx, cm, metav1.UpdateOptions{})
	must(h.t, err)
	return cm
}

func (h *fixture) deleteConfigMap(name string) {
	h.t.Helper()
	must(h.t, h.client.CoreV1().ConfigMaps(h.namespace).Delete(h.ctx, name, metav1.DeleteOptions{}))
}
