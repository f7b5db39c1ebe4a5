package kube

import (
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/testkit/devclustertest"
)

// Issue 8: what a person must know stands where he looks: on the ConfigMap, on the Pod of
// the operator, or on the ConfigMap when the Pod is not known. D16.
func TestNoticesAreEvents(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	cm := world.createConfigMap(ns, "values", nil)
	pod, err := world.admin.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "operator-1"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "o", Image: "o"}}},
	}, metav1.CreateOptions{})
	must(t, err)
	inPod := world.client.NewRecorder(t.Context(), RecorderOptions{Namespace: ns, ConfigMap: "values", Pod: "operator-1", Log: testLog(t)})
	inPod.Record(Notice{OnConfigMap: true, Warning: true, Reason: "Refused", Message: "not valid"})
	inPod.Record(Notice{Warning: true, Reason: "ModuleFailing", Message: "it fails"})
	inPod.Record(Notice{Warning: true, Reason: "ModuleFailing", Message: "it fails"})
	world.client.NewRecorder(t.Context(), RecorderOptions{Namespace: ns, ConfigMap: "values", Log: testLog(t)}).Record(Notice{Reason: "PurgeConfirmed", Message: "fine"})

	want := map[string]string{
		"Refused": "Warning ConfigMap " + string(cm.UID) + " not valid", "ModuleFailing": "Warning Pod " + string(pod.UID) + " it fails",
		"PurgeConfirmed": "Normal ConfigMap " + string(cm.UID) + " fine",
	}
	got := map[string]string{}
	eventually(t, "all events are there", func() bool {
		list, err := world.admin.CoreV1().Events(ns).List(t.Context(), metav1.ListOptions{})
		must(t, err)
		counted := false
		for _, e := range list.Items {
			got[e.Reason] = strings.Join([]string{e.Type, e.InvolvedObject.Kind, string(e.InvolvedObject.UID), e.Message}, " ")
			counted = counted || e.Reason == "ModuleFailing" && e.Count == 2
		}
		return len(list.Items) == len(want) && counted
	})
	for reason, text := range want {
		if got[reason] != text {
			t.Errorf("%s: %s, want %s", reason, got[reason], text)
		}
	}
}

// Events are a courtesy: without the permission the log says so once, with the fix, and those who give notices are not
// held up; a long message is cut.
func TestNoticesWithoutPermission(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	lines := make(chan string, 100)
	log := slog.New(slog.NewTextHandler(writerFunc(func(p []byte) { lines <- string(p) }), nil))
	r := world.as("unprivileged").NewRecorder(t.Context(), RecorderOptions{Namespace: world.Namespace(t), ConfigMap: "values", Log: log})
	for range 2 * burstNotices {
		r.Record(Notice{Warning: true, Reason: "Refused", Message: strings.Repeat("ä", 2000)})
	}
	if line := await(t, "a line of the log", lines); !strings.Contains(line, "allow the operator to create and patch events") || len(lines) > 0 {
		t.Errorf("the log says %q, and %d more", line, len(lines))
	}
}

type writerFunc func(p []byte)

// Write implements io.Writer.
func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}
