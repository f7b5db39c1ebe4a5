package devclustertest

import (
	"context"
	"crypto/rand"
	"fmt"
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
