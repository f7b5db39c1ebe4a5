package kube

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"
)

func TestConnectErrors(t *testing.T) {
	broken := filepath.Join(t.TempDir(), "broken")
	must(t, os.WriteFile(broken, []byte("{"), 0o600))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	tests := map[string]struct {
		options Options
		want    string
	}{
		"no kubeconfig, no pod":      {Options{}, "no kubeconfig is set"},
		"context without kubeconfig": {Options{Context: "prod"}, `context "prod"`},
		"no such file":               {Options{Kubeconfig: "/does/not/exist"}, "/does/not/exist"},
		"broken file":                {Options{Kubeconfig: broken}, broken},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			wantError(t, second(Connect(test.options)), test.want)
		})
	}
}

const kubeconfig = `{"apiVersion":"v1","kind":"Config","current-context":"a",
"contexts":[{"name":"a","context":{"cluster":"a","user":"u"}},{"name":"b","context":{"cluster":"b","user":"u"}}],
"clusters":[{"name":"a","cluster":{"server":"https://a.example.com"}},{"name":"b","cluster":{"server":"https://b.example.com"}}],
"users":[{"name":"u","user":{"token":"t"}}]}`

func TestConnect(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, []byte(kubeconfig), 0o600))
	tests := map[string]struct {
		options Options
		host    string
		qps     float32
		burst   int
		agent   string
	}{
		"defaults":        {Options{}, "https://a.example.com", 100, 200, "addon-operator"},
		"another context": {Options{Context: "b", QPS: 5, Burst: 7, UserAgent: "me"}, "https://b.example.com", 5, 7, "me"},
		"another server":  {Options{Server: "https://c.example.com", QPS: -1}, "https://c.example.com", -1, 200, "addon-operator"},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			test.options.Kubeconfig = path
			client, err := Connect(test.options)
			must(t, err)
			c := client.RESTConfig()
			if c.Host != test.host || c.QPS != test.qps || c.Burst != test.burst || c.UserAgent != test.agent || c.BearerToken != "t" {
				t.Errorf("host %s, QPS %v, burst %d, user agent %s", c.Host, c.QPS, c.Burst, c.UserAgent)
			}
		})
	}
}

// A list of kubeconfigs, as kubectl reads it from $KUBECONFIG: their content counts together, the
// first one wins, and missing ones are skipped.
func TestConnectWithAListOfKubeconfigs(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	context := file("context", `{"apiVersion":"v1","kind":"Config","current-context":"b","contexts":[{"name":"b","context":{"cluster":"b","user":"u","namespace":"team"}}]}`)
	missing := filepath.Join(dir, "missing")
	for situation, files := range map[string][]string{
		"two":          {context, file("rest", kubeconfig)},
		"one missing":  {missing, file("rest", kubeconfig), ""},
		"same twice":   {context, context, file("rest", kubeconfig)},
		"none of them": {missing, missing},
	} {
		t.Run(situation, func(t *testing.T) {
			o := Options{Kubeconfig: strings.Join(files, string(filepath.ListSeparator)), Context: "b"}
			if files[0] == context {
				o.Context = "" // that of the first file
			}
			client, err := Connect(o)
			if files[1] == missing {
				wantError(t, err, missing)
				return
			}
			must(t, err)
			target, err := FindTarget(o)
			must(t, err)
			if c := client.RESTConfig(); c.Host != "https://b.example.com" || c.BearerToken != "t" || target.Server != c.Host || target.Context != "b" || target.Kubeconfig != o.Kubeconfig {
				t.Errorf("connects to %s, and names %+v", c.Host, target)
			}
		})
	}
}

// Object patches have a client of their own, which shares connections and the
// knowledge of kinds. K6
func TestWithLimits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, []byte(kubeconfig), 0o600))
	client, err := Connect(Options{Kubeconfig: path})
	must(t, err)
	for want, limits := range map[string]Limits{"100 200 0s": {}, "5 7 1s": {QPS: 5, Burst: 7, Timeout: time.Second}, "-1 200 0s": {QPS: -1}} {
		limited, err := client.WithLimits(limits)
		must(t, err)
		c := limited.RESTConfig()
		if got := fmt.Sprint(c.QPS, c.Burst, c.Timeout); got != want || limited.kinds != client.kinds {
			t.Errorf("QPS, burst and timeout %s, want %s", got, want)
		}
		if before := client.RESTConfig(); before.QPS != 100 || before.Timeout != 0 {
			t.Error("the limits of the other client have changed")
		}
	}
}

// Warnings about object patches name the operation and whose it is.
func TestWarningsOfTheAPIServer(t *testing.T) {
	var log bytes.Buffer
	w := warnings{slog.New(slog.NewTextHandler(&log, nil))}
	w.HandleWarningHeaderWithContext(t.Context(), 299, "", "v1beta1 is deprecated")
	w.HandleWarningHeaderWithContext(t.Context(), 199, "", "another code")
	ctx := WithAbout(WithAbout(t.Context(), "module", "dns"), "patch", "Create ConfigMap d/a")
	w.HandleWarningHeaderWithContext(ctx, 299, "", "unknown field x")
	for range 2 * maxWarnings {
		w.HandleWarningHeaderWithContext(WithAbout(ctx, "of", "many"), 299, "", "deprecated")
	}
	text := log.String()
	if n := strings.Count(text, "of=many"); n != maxWarnings-1 {
		t.Errorf("%d warnings are logged", n)
	}
	if !strings.Contains(text, `module=dns patch="Create ConfigMap d/a" err="unknown field x"`) || !strings.Contains(text, "deprecated") || strings.Contains(text, "another") {
		t.Errorf("log:\n%s", text)
	}
}

// What the libraries log is debug; bodies of requests are left out, as they hold Secrets. J7.
func TestRedirectKlog(t *testing.T) {
	// The libraries' logger is global to the process, and in this one watches of other tests may be ending.
	const inner = "ADDON_OPERATOR_TEST_KLOG"
	if os.Getenv(inner) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestRedirectKlog$", "-test.v")
		cmd.Env = append(os.Environ(), inner+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestRedirectKlog") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	var log bytes.Buffer
	RedirectKlog(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})).WithGroup("g").With("a", 1))
	klog.InfoS("some information", "k", "v")
	klog.ErrorS(nil, "some error")
	klog.Background().V(6).Info("a request")
	klog.Background().V(8).Info("Request Body", "body", "a Secret")
	klog.Flush()
	if strings.Contains(log.String(), "Secret") {
		t.Errorf("a body is in the log:\n%s", log.String())
	}
	for _, want := range []string{"some information", "some error", "a request"} {
		if !regexp.MustCompile("level=DEBUG .*" + want + ".* g.a=1").MatchString(log.String()) {
			t.Errorf("%q is not in the log:\n%s", want, log.String())
		}
	}
}
