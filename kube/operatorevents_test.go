package kube

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/testkit/devclustertest"
)

// The Events of operators are listed in their order, and followed; those of other programs are not.
func TestSaid(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	world.createConfigMap(ns, "values", nil)
	events := events{world.client.core, "addon-operator/v1"}
	about := subject{"ConfigMap", ns, "values"}
	must(t, events.record(t.Context(), about, "Warning", "Refused", "not valid"))
	_, err := world.admin.CoreV1().Events(ns).Create(t.Context(), &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "other"}, InvolvedObject: corev1.ObjectReference{Namespace: ns}, Source: corev1.EventSource{Component: "addon-operators"}, Message: "nothing of ours",
	}, metav1.CreateOptions{})
	must(t, err)
	all, err := world.client.OperatorEvents(t.Context(), ns)
	if err != nil || len(all) != 1 || all[0].Reason != "Refused" || all[0].Object != "ConfigMap/values" || all[0].Count != 1 || all[0].Last.IsZero() {
		t.Fatalf("%+v, %v", all, err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	heard, ended := make(chan string, 10), make(chan error, 1)
	go func() {
		ended <- world.client.FollowOperatorEvents(ctx, ns, func(s OperatorEvent) error {
			heard <- fmt.Sprint(s.Reason, " ", s.Count)
			return nil
		})
	}()
	var got []string
	next := func() { got = append(got, <-heard) }
	next()
	must(t, events.record(t.Context(), about, "Warning", "Refused", "not valid"))
	next()
	must(t, events.record(t.Context(), about, "Normal", "Accepted", "fine"))
	next()
	if want := "Refused 1, Refused 2, Accepted 1"; strings.Join(got, ", ") != want {
		t.Errorf("got %s, want %s", got, want)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
