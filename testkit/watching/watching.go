// Package watching lends the watches of room kube to tests of rooms that may not
// know it.
package watching

import (
	"log/slog"
	"testing"

	"addon-operator/kube"
)

// Client connects to the API server of a kubeconfig. log may be nil.
func Client(t testing.TB, kubeconfig string, log *slog.Logger) *kube.Client {
	t.Helper()
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	client, err := kube.Connect(kube.Options{Kubeconfig: kubeconfig, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Presence is the one of room kube.
type Presence = kube.Presence

// Kind is the one of room kube.
type Kind = kube.WatchedKind

// NewPresence makes a Presence that asks for what may not be watched at each attempt to
// watch it.
func NewPresence(client *kube.Client) *Presence { return kube.NewPresence(client, 0) }
