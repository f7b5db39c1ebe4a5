package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"addon-operator/testkit/devclustertest"
)

// The API server is killed and comes back: the loss is visible, then events
// flow again, and each object is reported exactly once.
func TestRestartOfTheAPIServer(t *testing.T) {
	devclustertest.OnlyInFull(t)
	t.Parallel()
	world := newWorld(t, devclustertest.StartOwn(t))
	ns := world.Namespace(t)
	told := &tally{}
	world.client.watches = told
	watcher := world.watcher()
	l := listenSynced(t, watcher, configMaps(ns))
	spec := configMaps() // another namespace scope, so another reflector
	spec.KeepObjects = true
	all := listenSynced(t, watcher, spec)

	states := make(chan ConfigMap, 100)
	world.client.ConfigMap(ns, "values").Watch(t.Context(), func(c ConfigMap) { states <- c })
	if c := await(t, "the first state of the ConfigMap", states); c.Exists() {
		t.Errorf("a ConfigMap out of nothing: %+v", c)
	}

	create := func(from, to int) {
		for i := from; i < to; i++ {
			world.createConfigMap(ns, fmt.Sprintf("c-%04d", i), nil)
		}
	}
	create(0, 300)
	world.Kill(t)
	for _, l := range []*listener{l, all} {
		eventually(t, "the loss is visible", func() bool { return l.watch.State().Phase == Stale })
	}
	for _, want := range []string{"interrupted v1/configmaps in " + ns, "failed connection"} { // I2
		eventually(t, want, func() bool { return told.has(want) })
	}
	if _, err := world.client.ConfigMap(ns, "values").Read(t.Context()); err == nil {
		t.Error("read from an API server that is away")
	}
	world.Restart(t)
	create(300, 600)
	world.createConfigMap(ns, "values", map[string]string{"global": "x: 1"})
	if c := await(t, "the ConfigMap", states); c.Data["global"] != "x: 1" {
		t.Errorf("the ConfigMap is reported as %+v", c)
	}
	world.updateConfigMap(ns, "values", func(c *corev1.ConfigMap) { c.Labels["test"] = "other" })
	for _, l := range []*listener{l, all} {
		eventually(t, "all is well", func() bool { return l.watch.State().Phase == Complete })
		l.wantsEachOnce(Added, 601)
	}

	// Again, with nothing changed: nothing is reported.
	world.Restart(t)
	world.deleteConfigMap(ns, "values")
	if c := await(t, "the end of the ConfigMap", states); c.Exists() {
		t.Errorf("after its deletion the ConfigMap is reported as %+v", c)
	}
	l.wantsLast("Deleted "+ns+`/values {"global":"x: 1"}`, 602)
	all.wantsLast("Deleted "+ns+`/values {"global":"x: 1"}`, 602)
}

// wantsLast waits for the n-th change and checks it.
func (l *listener) wantsLast(line string, n int) {
	l.t.Helper()
	eventually(l.t, fmt.Sprintf("change %d is reported", n), func() bool { return len(l.lines()) >= n })
	lines := l.lines()
	if len(lines) != n || lines[n-1] != line {
		l.t.Errorf("%d changes, the last is %s; want %d and %s", len(lines), lines[len(lines)-1], n, line)
	}
}

// Behind a load balancer an API server that is away is one that takes
// connections and closes them. The libraries hide that; here it is a loss like
// any other, and visible while they still try.
func TestConnectionsThatAreClosedWithoutAnAnswer(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	balancer, away := world.behindBalancer()
	l := listenSynced(t, world.watcher(), configMaps(ns))
	world.createConfigMap(ns, "a", nil)
	l.wantsEachOnce(Added, 1)

	away.Store(true)
	balancer.CloseClientConnections()
	eventually(t, "the loss is visible", func() bool {
		state := l.watch.State()
		return state.Phase == Stale && strings.Contains(state.Message, "the connection was closed without an answer")
	})
	world.createConfigMap(ns, "b", nil)
	away.Store(false)
	eventually(t, "all is well", func() bool { return l.watch.State().Phase == Complete })
	l.wantsEachOnce(Added, 2)
}

// watchAPI answers watches as a test wants it to, and lists with an error or a version.
type watchAPI struct {
	dynamic.ResourceInterface

	watch  func(ctx context.Context) (watch.Interface, error)
	at     string // version of lists
	broken error
	lists  int
}

func (a *watchAPI) Watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	if a.watch == nil {
		return watch.NewFake(), nil
	}
	return a.watch(ctx)
}

func (a *watchAPI) List(context.Context, metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	a.lists++
	list := &unstructured.UnstructuredList{}
	list.SetResourceVersion(a.at)
	return list, a.broken
}

// A watch that gets no answer is one loss until there is an answer, and the reflector does not list again.
func TestWatchWithoutAnswer(t *testing.T) {
	api := &watchAPI{}
	s := newSourceBench(t).watcher.newSource(sourceKey{}, api)
	api.watch = func(context.Context) (watch.Interface, error) {
		return nil, &url.Error{Op: "Get", Err: noAnswer{io.EOF}}
	}
	var before condition
	for range 2 {
		if _, err := s.watch(t.Context(), metav1.ListOptions{}); !utilnet.IsConnectionRefused(err) {
			t.Errorf("the reflector gets %v", err)
		}
		now := s.health.condition()
		if !errors.Is(now.err, io.EOF) || !before.since.IsZero() && now.since != before.since {
			t.Errorf("the condition is %+v, before it was %+v", now, before)
		}
		before = now
	}
	api.watch = nil
	if _, err := s.watch(t.Context(), metav1.ListOptions{}); err != nil || s.health.condition().failing() {
		t.Errorf("after an answer: %v, %+v", err, s.health.condition())
	}
}

// behindBalancer leads the client through a server that closes connections while away.
func (w *world) behindBalancer() (*httptest.Server, *atomic.Bool) {
	w.t.Helper()
	config, away := w.RESTConfig(), &atomic.Bool{}
	server, err := url.Parse(config.Host)
	must(w.t, err)
	transport, err := rest.TransportFor(config)
	must(w.t, err)
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(server) }}
	balancer := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if away.Load() {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(rw, r)
	}))
	w.t.Cleanup(func() {
		balancer.CloseClientConnections()
		balancer.Close()
	})
	w.client, err = Connect(Options{Config: &rest.Config{Host: balancer.URL}, Log: testLog(w.t)})
	must(w.t, err)
	return balancer, away
}
