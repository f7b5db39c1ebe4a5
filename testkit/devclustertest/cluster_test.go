package devclustertest

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestBorrowedClusterServesOneTestAfterTheOther(t *testing.T) {
	skipWhenShort(t)
	var first *Cluster
	t.Run("first", func(t *testing.T) { first = Borrow(t) })
	t.Run("second", func(t *testing.T) {
		if second := Borrow(t); second != first {
			t.Error("another cluster was started, though one was given back")
		}
		if other := <-slots(); other != nil {
			t.Error("the borrowed cluster is there for others")
		}
		slots() <- nil
	})
	t.Run("killed", func(t *testing.T) { // kube has the test in which it comes back
		cluster := Borrow(t)
		cluster.Kill(t)
		cluster.Kill(t) // of a killed one: nothing
		if _, err := clientFor(t, cluster.RESTConfig()).Discovery().ServerVersion(); err == nil {
			t.Error("the API server answers after Kill")
		}
	})
	for range atATime {
		if <-slots() != nil {
			t.Error("a killed cluster was given back")
		}
	}
	for range atATime {
		slots() <- nil
	}
	if _, err := os.Stat(first.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory of a killed cluster: %v", err)
	}
}

func clientFor(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	return client
}

// eventually waits for a condition; the bound is for a hung cluster, not a
// measure of anything.
func eventually(t *testing.T, what string, condition func(context.Context) (bool, error)) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), pollInterval, 2*time.Minute, true, condition); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// second returns the error of a call whose result is not needed.
func second[V any](_ V, err error) error { return err }
