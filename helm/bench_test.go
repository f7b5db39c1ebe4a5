package helm

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"addon-operator/testkit/devclustertest"
	"addon-operator/testkit/watching"
)

// counted is an API server behind a proxy that counts requests, watches included.
type counted struct {
	cluster    *devclustertest.Cluster
	config     *rest.Config
	kubeconfig string
	requests   atomic.Int64
}

func newCounted(tb testing.TB) *counted {
	tb.Helper()
	cluster := devclustertest.Start(tb)
	c := &counted{cluster: cluster}
	upstream, err := url.Parse(cluster.RESTConfig().Host)
	if err != nil {
		tb.Fatal(err)
	}
	transport, err := rest.TransportFor(cluster.RESTConfig())
	if err != nil {
		tb.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		// A watch that ends with its client is no error to speak of.
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.requests.Add(1)
		defer func() { _ = recover() }() // ReverseProxy aborts a watch that its client left
		proxy.ServeHTTP(w, r)
	}))
	tb.Cleanup(server.CloseClientConnections)
	c.config = &rest.Config{Host: server.URL, QPS: -1}
	c.kubeconfig = filepath.Join(tb.TempDir(), "kubeconfig")
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: server.URL}},
		Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c"}}, CurrentContext: "c",
	}, c.kubeconfig)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

const fortyModules = 40

// threeObjects is what the other implementations were measured with.
func threeObjects(tb testing.TB) []Module {
	tb.Helper()
	modules := make([]Module, fortyModules)
	for i := range modules {
		name := fmt.Sprintf("bench-%02d", i)
		text := "-- Chart.yaml --\napiVersion: v2\nname: " + name + "\nversion: 1.0.0\n-- templates/all.yaml --\n"
		for n := range 3 {
			text += fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s-%d}\ndata: {text: {{ .Values.text | quote }}}\n", name, n)
		}
		modules[i] = moduleOf(tb, name, text)
		modules[i].Values["text"] = "one"
	}
	return modules
}

// operator is a new process: a client with its watches.
func (c *counted) operator(tb testing.TB, namespace string) *Client {
	tb.Helper()
	watcher := watching.Client(tb, c.kubeconfig, nil)
	client, err := New(Options{Config: c.config, Namespace: namespace, HistoryMax: 10, Watcher: watcher, Presence: watching.NewPresence(watcher)})
	if err != nil {
		tb.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	tb.Cleanup(stop)
	client.Watch(ctx, News{Gone: func(Object) {}, Changed: func(string) {}})
	return client
}

func applyAll(tb testing.TB, client *Client, modules []Module, want Action) {
	tb.Helper()
	for _, m := range modules {
		got, err := client.Apply(context.Background(), m)
		if err != nil {
			tb.Fatal(err)
		}
		if got.Action != want {
			tb.Fatalf("%s: %s (%s), want %s", m.Name, got.Action, got.Reason, want)
		}
	}
}

// measure counts the requests of run, and times it; around runs beside the clock.
func (c *counted) measure(b *testing.B, prepare func() (run func())) {
	b.Helper()
	requests := int64(0)
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		run := prepare()
		before := c.requests.Load()
		b.StartTimer()
		run()
		b.StopTimer()
		requests += c.requests.Load() - before
		b.StartTimer()
	}
	b.ReportMetric(float64(requests)/float64(b.N), "requests/op")
}

// BenchmarkFortyModules applies 40 modules of 3 objects one after the other, beside the
// plain loop over the Helm library with a shared discovery.
func BenchmarkFortyModules(b *testing.B) {
	c := newCounted(b)
	modules := threeObjects(b)
	changed := make([][]Module, 2)
	for i := range changed {
		for _, m := range modules {
			changed[i] = append(changed[i], Module{Name: m.Name, Key: m.Key, Dir: m.Dir, Values: map[string]any{"text": fmt.Sprint(i)}})
		}
	}
	b.Run("cold", func(b *testing.B) {
		c.measure(b, func() func() {
			namespace := c.cluster.Namespace(b)
			return func() { applyAll(b, c.operator(b, namespace), modules, Installed) }
		})
	})
	namespace := c.cluster.Namespace(b)
	running := c.operator(b, namespace)
	applyAll(b, running, modules, Installed)
	b.Run("restart", func(b *testing.B) {
		c.measure(b, func() func() {
			return func() {
				client := c.operator(b, namespace)
				applyAll(b, client, modules, Skipped)
				if _, err := client.Releases(context.Background()); err != nil {
					b.Fatal(err)
				}
			}
		})
	})
	b.Run("reload", func(b *testing.B) {
		c.measure(b, func() func() { return func() { applyAll(b, running, modules, Skipped) } })
	})
	turn := 0
	b.Run("upgrade", func(b *testing.B) {
		c.measure(b, func() func() {
			turn++
			return func() { applyAll(b, running, changed[turn%2], Upgraded) }
		})
	})
	b.Run("plain-cold", func(b *testing.B) {
		c.measure(b, func() func() {
			namespace := c.cluster.Namespace(b)
			return func() { c.plainLoop(b, namespace, modules, false) }
		})
	})
	again := c.cluster.Namespace(b)
	c.plainLoop(b, again, modules, false)
	b.Run("plain-reload", func(b *testing.B) {
		c.measure(b, func() func() { return func() { c.plainLoop(b, again, modules, true) } })
	})
}

// plainLoop is what a program does that calls the library for each chart.
func (c *counted) plainLoop(tb testing.TB, namespace string, modules []Module, upgrade bool) {
	tb.Helper()
	shared, err := newPlainGetter(c.config, namespace)
	if err != nil {
		tb.Fatal(err)
	}
	cfg := &action.Configuration{}
	if err := cfg.Init(shared, namespace, "secrets", func(string, ...any) {}); err != nil {
		tb.Fatal(err)
	}
	for _, m := range modules {
		chart, err := loader.LoadDir(m.Dir)
		if err != nil {
			tb.Fatal(err)
		}
		if upgrade {
			u := action.NewUpgrade(cfg)
			u.Namespace, u.MaxHistory, u.DisableOpenAPIValidation = namespace, 10, true
			_, err = u.Run(m.Name, chart, m.Values)
		} else {
			i := action.NewInstall(cfg)
			i.ReleaseName, i.Namespace, i.DisableOpenAPIValidation = m.Name, namespace, true
			_, err = i.Run(chart, m.Values)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
}

// plainGetter shares one discovery and has no client limits.
type plainGetter struct {
	config    *rest.Config
	namespace string
	cached    discovery.CachedDiscoveryInterface
	mapper    meta.RESTMapper
}

func newPlainGetter(config *rest.Config, namespace string) (*plainGetter, error) {
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	cached := memory.NewMemCacheClient(client)
	return &plainGetter{config, namespace, cached, restmapper.NewDeferredDiscoveryRESTMapper(cached)}, nil
}

func (g *plainGetter) ToRESTConfig() (*rest.Config, error) { return g.config, nil }
func (g *plainGetter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.cached, nil
}
func (g *plainGetter) ToRESTMapper() (meta.RESTMapper, error) { return g.mapper, nil }
func (g *plainGetter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	overrides := &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: g.namespace}}
	return clientcmd.NewDefaultClientConfig(*clientcmdapi.NewConfig(), overrides)
}

// The requests that 40 modules may need; TestNoRequestsWithoutChange is about one.
func TestRequestsOfFortyModules(t *testing.T) {
	c := newCounted(t)
	modules, namespace := threeObjects(t), c.cluster.Namespace(t)
	within := func(what string, limit int64, run func()) {
		t.Helper()
		before := c.requests.Load()
		run()
		if got := c.requests.Load() - before; got > limit {
			t.Errorf("%s: %d requests, want at most %d", what, got, limit)
		} else {
			t.Logf("%s: %d requests", what, got)
		}
	}
	within("cold install", 400, func() { applyAll(t, c.operator(t, namespace), modules, Installed) })
	var running *Client
	within("new process", 40, func() {
		running = c.operator(t, namespace)
		applyAll(t, running, modules, Skipped)
	})
	within("reload", 0, func() { applyAll(t, running, modules, Skipped) })
}
