package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// moodyServer stands between the operator and the API server. It lets a stranger ask for
// Pods, does not answer lists of Services until the test lets it, and can be away.
type moodyServer struct {
	*httptest.Server

	answer chan struct{} // closed: Services are listed
	away   atomic.Bool
}

// moodyServerFor starts one, and lets the operators of the fixture talk to it.
func moodyServerFor(h *fixture) *moodyServer {
	h.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", h.kubeconfig)
	if err != nil {
		h.t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		h.t.Fatal(err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		h.t.Fatal(err)
	}
	s := &moodyServer{answer: make(chan struct{})}
	proxy := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(server) }}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.away.Load():
			panic(http.ErrAbortHandler) // the connection ends without an answer
		case strings.HasSuffix(r.URL.Path, "/pods"):
			r.Header.Set("Impersonate-User", "stranger")
		case strings.HasSuffix(r.URL.Path, "/services"):
			select {
			case <-s.answer:
			case <-r.Context().Done():
				return
			}
		}
		proxy.ServeHTTP(w, r)
	}))
	h.t.Cleanup(s.CloseClientConnections)
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters["moody"] = &clientcmdapi.Cluster{Server: s.URL}
	kubeconfig.Contexts["moody"] = &clientcmdapi.Context{Cluster: "moody"}
	kubeconfig.CurrentContext = "moody"
	h.kubeconfig = h.path("kubeconfig-of-moody-server")
	if err := clientcmd.WriteToFile(*kubeconfig, h.kubeconfig); err != nil {
		h.t.Fatal(err)
	}
	return s
}

// leave ends all connections and refuses new ones.
func (s *moodyServer) leave() {
	s.away.Store(true)
	s.CloseClientConnections()
}

// Each binding says where it stands, in the dump of the actors, in the metrics and in
// /readyz?verbose: syncing, complete, waiting for its kind, forbidden with verb, resource
// and namespace, stale since when. None holds up more than its own hook. Issue 3.6; C16, C17, C36.
func TestStatesOfSnapshots(t *testing.T) {
	h := newFixture(t, "snapshots")
	server := moodyServerFor(h)
	o := h.start().ready() // though three of four bindings are not complete

	h.awaitLine("out/ConfigMap", "Synchronization null null")
	o.awaitState("ConfigMap", "complete")
	o.awaitState("Service", "syncing")
	o.awaitState("Gizmo", "waiting-for-kind", "waiting for Gizmo")
	o.awaitState("Pod", "forbidden", "not allowed to ", "pods in namespace "+h.namespace, `User "stranger" cannot `)
	o.expectEverywhere("4 bindings, 1 complete")
	h.createConfigMap("a", "x", nil)
	h.awaitLine("out/ConfigMap", "Event Added a")

	close(server.answer)
	h.awaitLine("out/Service", "Synchronization null null")
	o.awaitState("Service", "complete")
	o.expectEverywhere("4 bindings, 2 complete")

	server.leave()
	for _, kind := range []string{"ConfigMap", "Service"} {
		o.awaitState(kind, "stale", "stale since 20")
	}
	o.expectEverywhere("4 bindings, 0 complete")
	h.createConfigMap("b", "x", nil) // the test itself has another way
	server.away.Store(false)
	h.awaitLine("out/ConfigMap", "Event Added b")
	o.awaitState("ConfigMap", "complete")

	for _, kind := range []string{"Gizmo", "Pod"} {
		if got := h.read("out/" + kind); got != "" {
			t.Errorf("the hook for %s ran without its snapshot: %s", kind, got)
		}
	}
}

// awaitState waits until the binding of a kind says everywhere that it is in a state, and
// why: in the metrics, and, unless it is complete, as text on both pages; in the dump as
// JSON in any case.
func (o *operator) awaitState(kind, state string, why ...string) {
	o.fixture.t.Helper()
	hook := "010-watch/hooks/" + kind + ".sh"
	o.fixture.eventually(kind+" is "+state, func() error {
		if got := o.metric("addon_operator_kube_binding_state", `hook="`+hook+`"`, `state="`+state+`"`); got != "1" {
			return fmt.Errorf("kube_binding_state is %q", got)
		}
		var roots []node
		if err := json.Unmarshal([]byte(o.dump("-o", "json")), &roots); err != nil || len(roots) != 1 {
			return fmt.Errorf("%d roots, %w", len(roots), err)
		}
		found := ""
		if monitors := roots[0].find("operator/monitors"); monitors != nil {
			for _, b := range monitors.Status.Bindings {
				if b.Hook == hook {
					found += b.Phase + " " + b.Message
				}
			}
		}
		if !containsAll(found, append(slices.Clone(why), state)) {
			return fmt.Errorf("the dump says %q, want %q and %q", found, why, state)
		}
		if state == "complete" {
			return nil
		}
		_, verbose := get(o.public + "/readyz?verbose")
		want := append(slices.Clone(why), "watch "+hook+"/all "+kind+": "+state)
		for page, text := range map[string]string{"/readyz?verbose": verbose, "the dump": o.dump()} {
			if !containsAll(text, want) {
				return fmt.Errorf("%s has not %q:\n%s", page, want, text)
			}
		}
		return nil
	})
}

// expectEverywhere waits for a text in /readyz?verbose and in the dump.
func (o *operator) expectEverywhere(want string) {
	o.fixture.t.Helper()
	o.fixture.eventually(want, func() error {
		_, verbose := get(o.public + "/readyz?verbose")
		if dump := o.dump(); !strings.Contains(verbose, want) || !strings.Contains(dump, want) {
			return fmt.Errorf("/readyz?verbose:\n%s\ndump:\n%s", verbose, dump)
		}
		return nil
	})
}
