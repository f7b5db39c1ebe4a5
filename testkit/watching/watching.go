// Package watching gives tests of packages that may not import package kube (imports_test.go), such
// as helm, its client and its watches of objects. It adds nothing to them.
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

// Presence is that of package kube.
type Presence = kube.Presence

// Kind is that of package kube.
type Kind = kube.WatchedKind

// NewPresence makes a Presence that asks for what may not be watched at each attempt to
// watch it, without a pause, for which a test would have to wait.
func NewPresence(client *kube.Client) *Presence { return kube.NewPresence(client, 0) }
