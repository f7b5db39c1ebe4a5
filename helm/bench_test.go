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
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
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

// counted is an API server that counts requests: those of config in the client, those of
// kubeconfig, which are watches, in a proxy, so that it takes no part in what is measured.
type counted struct {
	cluster    *devclustertest.Cluster
	config     *rest.Config
	kubeconfig string
	requests   atomic.Int64
}

func newCounted(tb testing.TB, cluster *devclustertest.Cluster) *counted {
	tb.Helper()
	c := &counted{cluster: cluster}
	upstream, err := url.Parse(cluster.RESTConfig().Host)
	must(tb, err)
	transport, err := rest.TransportFor(cluster.RESTConfig())
	must(tb, err)
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
	c.config = rest.CopyConfig(cluster.RESTConfig())
	c.config.QPS = -1
	c.config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			c.requests.Add(1)
			return next.RoundTrip(r)
		})
	})
	c.kubeconfig = filepath.Join(tb.TempDir(), "kubeconfig")
	err = clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: server.URL}},
		Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c"}}, CurrentContext: "c",
	}, c.kubeconfig)
	must(tb, err)
	return c
}

const fortyModules = 40

// fortyCharts have that many ConfigMaps each; three is what the other implementations were
// measured with.
func fortyCharts(tb testing.TB, objects int) []Module {
	tb.Helper()
	modules := make([]Module, fortyModules)
	for i := range modules {
		name := fmt.Sprintf("bench-%02d", i)
		text := "-- Chart.yaml --\napiVersion: v2\nname: " + name + "\nversion: 1.0.0\n-- templates/all.yaml --\n"
		for n := range objects {
			text += fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s-%d}\ndata: {text: {{ .Values.text | quote }}}\n", name, n)
		}
		modules[i] = moduleOf(tb, name, text)
		modules[i].Values["text"] = "one"
	}
	return modules
}

// operator is a new process, a client with its watches, until stop. Those of an earlier
// one would take part in what is measured.
func (c *counted) operator(tb testing.TB, namespace string) (_ *Client, stop func()) {
	tb.Helper()
	watcher := watching.Client(tb, c.kubeconfig, nil)
	client, err := New(Options{Config: c.config, Namespace: namespace, HistoryMax: 10, Watcher: watcher, Presence: watching.NewPresence(watcher)})
	must(tb, err)
	ctx, stop := context.WithCancel(context.Background())
	tb.Cleanup(stop)
	client.Watch(ctx, News{Gone: func(Object) {}})
	return client, stop
}

func applyAll(tb testing.TB, client *Client, modules []Module, want Action) {
	tb.Helper()
	applyWide(tb, 1, client, modules, want)
}

// applyWide applies some modules at the same time, as an operator does whose modules have
// the same order.
func applyWide(tb testing.TB, width int, client *Client, modules []Module, want Action) {
	tb.Helper()
	var group errgroup.Group
	group.SetLimit(width)
	for _, m := range modules {
		group.Go(func() error {
			got, err := client.Apply(context.Background(), m)
			if err == nil && got.Action != want {
				err = fmt.Errorf("%s: %s (%s), want %s", m.Name, got.Action, got.Reason, want)
			}
			return err
		})
	}
	must(tb, group.Wait())
}

// measure counts the requests of run, and times it; the clock does not count around.
func (c *counted) measure(b *testing.B, prepare func() (run func())) {
	b.Helper()
	requests, cpu := int64(0), time.Duration(0)
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		run := prepare()
		before, used := c.requests.Load(), ownCPU(b)
		b.StartTimer()
		run()
		b.StopTimer()
		requests += c.requests.Load() - before
		cpu += ownCPU(b) - used
		b.StartTimer()
	}
	b.ReportMetric(float64(requests)/float64(b.N), "requests/op")
	b.ReportMetric(float64(cpu.Milliseconds())/float64(b.N), "cpu-ms/op")
}

// ownCPU is the processor time this process has used.
func ownCPU(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// BenchmarkFortyModules applies 40 modules of 3 and of 5 objects, one after the other and
// four at the same time, in turns with the plain loop over the Helm library with a shared
// discovery. Wall, CPU of this process (the operator and the counting proxy) and requests.
func BenchmarkFortyModules(b *testing.B) {
	c := newCounted(b, devclustertest.Start(b))
	for _, objects := range []int{3, 5} {
		b.Run(fmt.Sprintf("objects=%d", objects), func(b *testing.B) { c.benchForty(b, fortyCharts(b, objects)) })
	}
}

func (c *counted) benchForty(b *testing.B, modules []Module) {
	b.Helper()
	for _, width := range []int{1, 4} {
		b.Run(fmt.Sprintf("cold/width=%d", width), func(b *testing.B) {
			c.measure(b, func() func() {
				namespace := c.cluster.Namespace(b)
				return func() {
					client, stop := c.operator(b, namespace)
					defer stop()
					applyWide(b, width, client, modules, Installed)
				}
			})
		})
	}
	b.Run("cold/plain", func(b *testing.B) {
		c.measure(b, func() func() {
			namespace := c.cluster.Namespace(b)
			return func() { c.plainLoop(b, namespace, modules, false) }
		})
	})
	namespace := c.cluster.Namespace(b)
	running, _ := c.operator(b, namespace)
	applyAll(b, running, modules, Installed)
	running.homes.inputs.write()
	b.Run("restart", func(b *testing.B) {
		c.measure(b, func() func() {
			return func() {
				client, stop := c.operator(b, namespace)
				defer stop()
				must(b, second(client.Releases(context.Background())))
				applyAll(b, client, modules, Skipped)
			}
		})
	})
	b.Run("reload", func(b *testing.B) {
		c.measure(b, func() func() {
			return func() {
				must(b, second(running.Releases(context.Background())))
				applyAll(b, running, modules, Skipped)
			}
		})
	})
	turn := 0
	for _, width := range []int{1, 4} {
		b.Run(fmt.Sprintf("upgrade/width=%d", width), func(b *testing.B) {
			c.measure(b, func() func() {
				turn++
				changed := withText(modules, fmt.Sprint(turn))
				return func() {
					must(b, second(running.Releases(context.Background())))
					applyWide(b, width, running, changed, Upgraded)
				}
			})
		})
	}
	again := c.cluster.Namespace(b)
	c.plainLoop(b, again, modules, false)
	b.Run("reload/plain", func(b *testing.B) {
		c.measure(b, func() func() { return func() { c.plainLoop(b, again, modules, true) } })
	})
	b.Run("upgrade/plain", func(b *testing.B) {
		c.measure(b, func() func() {
			turn++
			changed := withText(modules, fmt.Sprint(turn))
			return func() { c.plainLoop(b, again, changed, true) }
		})
	})
}

// withText changes the value that every object shows.
func withText(modules []Module, text string) []Module {
	changed := make([]Module, len(modules))
	for i, m := range modules {
		m.Values = map[string]any{"text": text}
		changed[i] = m
	}
	return changed
}

// plainLoop is what a program does that calls the library for each chart.
func (c *counted) plainLoop(tb testing.TB, namespace string, modules []Module, upgrade bool) {
	tb.Helper()
	shared, err := newPlainGetter(c.config, namespace)
	must(tb, err)
	cfg := &action.Configuration{}
	must(tb, cfg.Init(shared, namespace, "secrets", func(string, ...any) {}))
	for _, m := range modules {
		chart, err := loader.LoadDir(m.Dir)
		must(tb, err)
		if upgrade {
			u := action.NewUpgrade(cfg)
			u.Namespace, u.MaxHistory, u.DisableOpenAPIValidation = namespace, 10, true
			_, err = u.Run(m.Name, chart, m.Values)
		} else {
			i := action.NewInstall(cfg)
			i.ReleaseName, i.Namespace, i.DisableOpenAPIValidation = m.Name, namespace, true
			_, err = i.Run(chart, m.Values)
		}
		must(tb, err)
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

// The requests that 40 modules may need; TestRequestsWithoutChange is about one. The cluster is borrowed: when
// another test defines a kind, the API server is asked for all of them.
func TestRequestsOfFortyModules(t *testing.T) {
	c := newCounted(t, devclustertest.Borrow(t))
	modules, namespace := fortyCharts(t, 3), c.cluster.Namespace(t)
	within := func(what string, limit int64, run func()) {
		t.Helper()
		before := c.requests.Load()
		run()
		if got := c.requests.Load() - before; got > limit {
			t.Errorf("%s: %d requests, want at most %d", what, got, limit)
		}
	}
	var running *Client
	within("cold install", 400, func() {
		running, _ = c.operator(t, namespace)
		applyAll(t, running, modules, Installed)
	})
	within("new process", 40, func() {
		running, _ = c.operator(t, namespace)
		applyAll(t, running, modules, Skipped)
	})
	within("reload", 1, func() {
		must(t, second(running.Releases(t.Context())))
		applyAll(t, running, modules, Skipped)
	})
}
