package devclustertest_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"addon-operator/testkit/devclustertest"
)

// A test shares the cluster with all others, and has a namespace of its own.
func Example() {
	_ = func(t *testing.T) { // a test
		cluster := devclustertest.Start(t)
		namespace := cluster.Namespace(t)
		client := kubernetes.NewForConfigOrDie(cluster.RESTConfig())
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
		}
		if _, err := client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Error(err)
		}
	}
}

// A test that takes the API server away starts a cluster of its own.
func ExampleStartOwn() {
	_ = func(t *testing.T) { // a test
		cluster := devclustertest.StartOwn(t)
		client := kubernetes.NewForConfigOrDie(cluster.RESTConfig())
		cluster.Kill(t)
		if _, err := client.Discovery().ServerVersion(); err == nil {
			t.Error("the API server answers")
		}
		cluster.Restart(t) // the same port, the same objects
		if _, err := client.Discovery().ServerVersion(); err != nil {
			t.Error(err)
		}
	}
}
