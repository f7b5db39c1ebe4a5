package helm

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"addon-operator/kube"
	"addon-operator/testkit/devclustertest"
)

// fortyCharts have three ConfigMaps each.
func fortyCharts(t *testing.T) []Module {
	t.Helper()
	modules := make([]Module, 40)
	for i := range modules {
		name := fmt.Sprintf("forty-%02d", i)
		text := "-- Chart.yaml --\napiVersion: v2\nname: " + name + "\nversion: 1.0.0\n-- templates/all.yaml --\n"
		for n := range 3 {
			text += fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s-%d}\ndata: {text: {{ .Values.text | quote }}}\n", name, n)
		}
		modules[i] = moduleOf(t, name, text)
		modules[i].Values["text"] = "one"
	}
	return modules
}

// The requests that 40 modules may need, without those of watches; TestRequestsWithoutChange is about one. The cluster
// is borrowed: when another test defines a kind, the API server is asked for all of them.
func TestRequestsOfFortyModules(t *testing.T) {
	cluster := devclustertest.Borrow(t)
	var requests atomic.Int64
	config := rest.CopyConfig(cluster.RESTConfig())
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			requests.Add(1)
			return next.RoundTrip(r)
		})
	})
	modules, namespace := fortyCharts(t), cluster.Namespace(t)
	start := func() *Client {
		watcher := watches(t, cluster.Kubeconfig(), nil)
		client, err := New(Options{Config: config, Namespace: namespace, HistoryMax: 10, Watcher: watcher, Presence: kube.NewPresence(watcher, 0)})
		must(t, err)
		ctx, stop := context.WithCancel(context.Background())
		t.Cleanup(stop)
		client.Watch(ctx, News{Gone: func(Object) {}, Health: func(Object, Health) {}})
		return client
	}
	within := func(what string, limit int64, run func()) {
		t.Helper()
		before := requests.Load()
		run()
		if got := requests.Load() - before; got > limit {
			t.Errorf("%s: %d requests, want at most %d", what, got, limit)
		}
	}
	var running *Client
	all := func(want Action) {
		t.Helper()
		for _, m := range modules {
			if got, err := running.Apply(context.Background(), m); err != nil || got.Action != want {
				t.Fatalf("%s: %+v, %v; want %s", m.Name, got, err, want)
			}
		}
	}
	within("cold install", 400, func() { running = start(); all(Installed) })
	within("new process", 40, func() { running = start(); all(Skipped) })
	within("reload", 2, func() { must(t, second(running.Releases(t.Context()))); all(Skipped) })
	for i := range modules {
		modules[i].Values = map[string]any{"text": "two"}
	}
	// The newest record, the objects, a new record, the objects, both records; on a slow machine, the inputs, too.
	within("upgrade", 40*10+3, func() { all(Upgraded) })
}
