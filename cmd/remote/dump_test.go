package remote

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"addon-operator/cmd/cli"
	"addon-operator/kube"
	"addon-operator/server"
)

// pages stands for the debug pages of a running operator.
func pages(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path != "/actors":
		http.NotFound(w, r)
	case r.URL.Query().Get("output") == "json":
		fmt.Fprint(w, `[{"path": "operator", "userMessages": 12}]`)
	case r.URL.Query().Get("output") == "yaml":
		fmt.Fprint(w, "- path: operator\n  userMessages: 12\n")
	default:
		fmt.Fprint(w, "ACTOR\noperator\n")
	}
}

// Design 7: --dump-actors in three formats, over TCP and over a unix socket.
func TestDump(t *testing.T) {
	tcp := httptest.NewServer(http.HandlerFunc(pages))
	defer tcp.Close()
	socket := filepath.Join(t.TempDir(), "debug.socket")
	must(t, server.Serve(t.Context(), "unix:"+socket, http.HandlerFunc(pages), slog.New(slog.DiscardHandler)))
	address := strings.TrimPrefix(tcp.URL, "http://")
	for where, c := range map[string][]string{
		"tcp":                     {"--debug-address=" + address, "--debug-unix-socket=" + socket + ".gone"},
		"socket":                  {"--debug-address=", "--debug-unix-socket=" + socket},
		"socket as debug address": {"--debug-address=unix:" + socket},
	} {
		for format, want := range map[string]string{
			"text": "ACTOR\noperator\n",
			"json": `[{"path": "operator", "userMessages": 12}]`,
			"yaml": "- path: operator\n  userMessages: 12\n",
		} {
			t.Run(where+" "+format, func(t *testing.T) {
				if out, err := commanded(append(c, "--dump-actors", "-o", format)...); err != nil || out != want {
					t.Errorf("got %q, %v", out, err)
				}
			})
		}
	}
}

// The flag needs no namespace: an operator that has one answers.
func TestDumpActorsByCommandLine(t *testing.T) {
	tcp := httptest.NewServer(http.HandlerFunc(pages))
	defer tcp.Close()
	out, err := commanded("--dump-actors", "-o", "yaml", "--debug-address", strings.TrimPrefix(tcp.URL, "http://"))
	if out != "- path: operator\n  userMessages: 12\n" || err != nil {
		t.Errorf("got %q, %v", out, err)
	}
}

// Whoever is asked in vain is named, and so is what to do.
func TestDumpFails(t *testing.T) {
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no such luck", http.StatusTeapot) }))
	defer broken.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	host := func(s *httptest.Server) string { return strings.TrimPrefix(s.URL, "http://") }
	for to, wants := range map[string][]string{
		host(broken): {host(broken), "418", "no such luck"},
		host(gone):   {"no operator answers on " + host(gone), "--debug-address"},
	} {
		out, err := commanded("--dump-actors", "--debug-address", to)
		if err == nil || out != "" {
			t.Fatalf("got %q, %v", out, err)
		}
		for _, want := range wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		}
	}
}

// configured are options as the command line gives them.
func configured(t *testing.T, args ...string) *cli.Config {
	t.Helper()
	root, c := cli.Root("test", func(string) (string, bool) { return "", false })
	must(t, root.ParseFlags(args))
	return c
}

// commanded runs a command line.
func commanded(args ...string) (output string, err error) {
	root, c := cli.Root("test", func(string) (string, bool) { return "", false })
	DumpActors(c, root)
	root.AddCommand(Raw(c))
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs(args)
	err = root.Execute()
	return out.String(), err
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// J6: whoever looks again and again over the unix socket leaves no connection behind, for
// the operator has one file for each.
func TestQuestionsOverTheSocketLeaveNoConnection(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "debug.socket")
	l, err := net.Listen("unix", socket)
	must(t, err)
	var open atomic.Int32
	operator := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") }))
	operator.Listener = l
	operator.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	operator.Start()
	defer operator.Close()
	for range 5 {
		if out, err := commanded("raw", "/healthz", "--debug-unix-socket="+socket); out != "ok" || err != nil {
			t.Fatalf("got %q, %v", out, err)
		}
	}
	deadline, tick := time.NewTimer(time.Minute), time.NewTicker(time.Millisecond)
	defer deadline.Stop()
	defer tick.Stop()
	for open.Load() > 0 {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("%d connections are open", open.Load())
		}
	}
}

// An edit is validated by the operator whose values are written, and by no other: one on this machine may serve
// another cluster, namespace or ConfigMap.
func TestEditMeetsItsOperator(t *testing.T) {
	headers := http.Header{}
	operator := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), headers)
	}))
	defer operator.Close()
	client, err := kube.Connect(kube.Options{Config: &rest.Config{Host: "https://production:6443"}})
	must(t, err)
	for name, c := range map[string]struct {
		cluster, configMap string
		args               []string
		refused, writes    string // into which ConfigMap
	}{
		"of an older version":   {writes: "addon-operator"},
		"the same":              {cluster: "https://production:6443/", configMap: "addons/addon-operator", writes: "addon-operator"},
		"another ConfigMap":     {cluster: "https://production:6443", configMap: "addons/custom", writes: "custom"},
		"another than is given": {cluster: "https://production:6443", configMap: "addons/custom", args: []string{"--config-map=mine"}, refused: "in the ConfigMap addons/custom, not in addons/mine", writes: "mine"},
		"another cluster":       {cluster: "https://127.0.0.1:1", configMap: "addons/addon-operator", refused: "serves another cluster, https://127.0.0.1:1, not https://production:6443", writes: "addon-operator"},
		"another namespace":     {cluster: "https://production:6443", configMap: "dev/custom", refused: "in the ConfigMap dev/custom, not in addons/addon-operator", writes: "addon-operator"},
	} {
		t.Run(name, func(t *testing.T) {
			headers = http.Header{}
			if c.configMap != "" {
				headers.Set(server.ClusterHeader, c.cluster)
				headers.Set(server.ConfigMapHeader, c.configMap)
			}
			v := &valueEdit{config: configured(t, append(c.args, "--namespace=addons", "--debug-address="+strings.TrimPrefix(operator.URL, "http://"))...)}
			err := v.meet(t.Context(), client)
			if refused := err != nil; refused != (c.refused != "") || refused && !strings.Contains(err.Error(), c.refused) || v.config.ConfigMap != c.writes {
				t.Errorf("got %v, ConfigMap %s", err, v.config.ConfigMap)
			}
		})
	}
}

// Which operator is asked: the one of the debug address or socket that is given, else the one in the cluster of the
// kubeconfig.
func TestWhichOperatorIsAsked(t *testing.T) {
	for args, want := range map[string]bool{
		"": true, "--namespace=a": true, "-n=a": true, "--context=a": true, "--kubeconfig=a": true, "--kube-config=a": true,
		"--namespace=a --debug-address=127.0.0.1:1": false, "--context=a --debug-unix-socket=/s": false,
	} {
		if got := asksCluster(configured(t, strings.Fields(args)...)); got != want {
			t.Errorf("%q: the cluster is asked: %v", args, got)
		}
	}
}

// Right after an edit all modules are ready still: ready counts when it is answered twice.
func TestWaitAsksTwice(t *testing.T) {
	answers := []string{"the ConfigMap has changed\n", "ready\n", "web is running\n", "ready\n", "ready\n"}
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/module/ready" || r.URL.RawQuery != "module=web" {
			t.Errorf("asked %s", r.URL)
		}
		_, _ = w.Write([]byte(answers[min(asked, len(answers)-1)]))
		asked++
	}))
	t.Cleanup(server.Close)
	var out bytes.Buffer
	cmd := Wait(configured(t, "--debug-address="+strings.TrimPrefix(server.URL, "http://"), "--debug-unix-socket="))
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"web"})
	must(t, cmd.ExecuteContext(t.Context()))
	const want = "the ConfigMap has changed\nweb is running\nready\n"
	if out.String() != want || asked != len(answers) {
		t.Errorf("asked %d times, said\n%s\nwant\n%s", asked, out.String(), want)
	}
}
