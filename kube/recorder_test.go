package kube

import (
	"log/slog"
	"strings"
	"testing"

	"golang.org/x/time/rate"
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
	world.client.NewRecorder(t.Context(), RecorderOptions{Namespace: ns, ConfigMap: "values", Log: testLog(t)}).Record(Notice{Reason: "ModuleRecovered", Message: "fine"})

	want := map[string]string{
		"Refused": "Warning ConfigMap " + string(cm.UID) + " not valid", "ModuleFailing": "Warning Pod " + string(pod.UID) + " it fails",
		"ModuleRecovered": "Normal ConfigMap " + string(cm.UID) + " fine",
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

// Events are a courtesy: without the permission the log says so once, with the fix,
// and what comes too fast is dropped.
func TestNoticesWithoutPermission(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	log := &countedLog{}
	r := &Recorder{events: events{core: world.as("unprivileged").core}, options: RecorderOptions{Namespace: world.Namespace(t), ConfigMap: "values", Log: slog.New(slog.NewTextHandler(log, nil))}, limits: map[string]*rate.Limiter{}}
	for range 2 * burstNotices {
		r.record(t.Context(), Notice{Warning: true, Reason: "Refused", Message: "not valid"})
	}
	if len(log.lines) != 1 || !strings.Contains(log.lines[0], "allow the operator to create and update events") {
		t.Errorf("the log says %q", log.lines)
	}
	if r.limits["Refused"].Tokens() >= 1 {
		t.Errorf("%v more events of one reason are allowed", r.limits["Refused"].Tokens())
	}
}

// An API server that does not answer holds nothing up.
func TestNoticesNeverBlock(t *testing.T) {
	stuck := &Recorder{notices: make(chan Notice, pendingNotices), limits: map[string]*rate.Limiter{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 2 * pendingNotices {
			stuck.Record(Notice{Reason: "Refused"})
		}
	}()
	await(t, "who gives notices", done)
	if len(stuck.notices) != pendingNotices {
		t.Errorf("%d notices wait", len(stuck.notices))
	}
}

// countedLog collects records.
type countedLog struct{ lines []string }

func (l *countedLog) Write(p []byte) (int, error) {
	l.lines = append(l.lines, string(p))
	return len(p), nil
}
