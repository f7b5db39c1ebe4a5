package devclustertest

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
)

const (
	// requestTimeout bounds one request; the machine may be compiling.
	requestTimeout = time.Minute
	pollInterval   = 20 * time.Millisecond
)

// Namespace makes a namespace with a fresh name and returns when Pods are
// admitted in it. It is not deleted: it ends with its cluster, and that with
// go test. The control plane would ask for the objects of every kind, which
// takes longer than many a test.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), requestTimeout)
	defer cancel()
	name := namespaceName(t.Name())
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		t.Fatalf("namespace for the test: %v", err)
	}
	if err := waitForAccount(ctx, client, name); err != nil {
		t.Fatalf("namespace %s: default service account: %v", name, err)
	}
	return name
}

// namespaceName is a valid name of a namespace (RFC 1123 label) that says
// which test made it and that no other test gets.
func namespaceName(test string) string {
	const wanted = 40 // of 63 characters that a label may have
	slug := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9':
			return r
		default:
			return '-'
		}
	}, strings.ToLower(test))
	slug = strings.Trim(slug[:min(len(slug), wanted)], "-")
	return fmt.Sprintf("%s-%s", slug, strings.ToLower(rand.Text()[:8]))
}

// Kind returns a name for a kind that no other test defines: the word, an upper-case letter
// and lower-case ones, with a random ending. All tests share one API server, and a kind that
// is named without its API version is searched in all groups: with a common name a test finds
// the kind of another one, or loses its own when that one ends.
func Kind(word string) string {
	return word + strings.ToLower(rand.Text()[:8])
}

// waitForAccount waits for the account that the control plane makes in every
// namespace: before it is there, no Pod is admitted.
func waitForAccount(ctx context.Context, client kubernetes.Interface, namespace string) error {
	return wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
}

// FinishPods is the kubelet for the Pods of Jobs and of Helm hooks in a namespace, until the
// context ends: they succeed at once. Other Pods stay Pending. It blocks, so tests call it in a
// goroutine. A watch that has ended, by its timeout or with the API server, begins again with all
// Pods that there are.
func FinishPods(ctx context.Context, client kubernetes.Interface, namespace string) {
	pods := client.CoreV1().Pods(namespace)
	for ctx.Err() == nil {
		w, err := pods.Watch(ctx, metav1.ListOptions{})
		if err != nil { // not at once: a server that starts needs the processor itself
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
			continue
		}
		for e := range w.ResultChan() {
			pod, ok := e.Object.(*corev1.Pod)
			// A Helm hook may be a Pod itself. One that is being deleted needs no other status.
			ofJob := ok && slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "Job" })
			if !ok || pod.Status.Phase != corev1.PodPending || pod.DeletionTimestamp != nil || !ofJob && pod.Annotations["helm.sh/hook"] == "" {
				continue
			}
			pod = pod.DeepCopy()
			pod.Status.Phase = corev1.PodSucceeded
			_, _ = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{}) // after a conflict comes another event
		}
	}
}
