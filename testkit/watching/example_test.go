package watching_test

import (
	"testing"

	"addon-operator/testkit/watching"
)

// A test of package helm watches which objects of releases exist, without an import of kube.
func Example() {
	_ = func(t *testing.T) { // a test
		client := watching.Client(t, "kubeconfig", nil)
		presence := watching.NewPresence(client)
		for _, kind := range presence.WatchedKinds() {
			t.Log(kind)
		}
	}
}
