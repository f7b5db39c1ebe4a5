// Package watching lends the watches of room kube to tests of rooms that may not
// know it.
package watching

import (
	"log/slog"
	"testing"

	"addon-operator/kube"
)

// Client connects to the API server of a kubeconfig. It offers WatchMetadata.
func Client(t testing.TB, kubeconfig string) *kube.Client {
	t.Helper()
	client, err := kube.Connect(kube.Options{Kubeconfig: kubeconfig, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return client
}
