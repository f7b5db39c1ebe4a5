package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"addon-operator/testkit/devclustertest"
)

// fixture is what one test gives to the operator: directories, a namespace of a real
// cluster, an environment.
type fixture struct {
	t          testing.TB
	ctx        context.Context // ends with the test
	dir        string
	namespace  string
	kubeconfig string
	tools      string // a directory with kubectl and jq
	client     kubernetes.Interface
	sieve      func(line []byte) bool // of the log of the next operator that starts
	within     []string               // a command that executes its last argument, the operator; nil for none
}

// newFixture unpacks testdata/NAME.txtar (or NAME itself, when it has several lines) and
// makes a namespace. The test runs in parallel with others.
func newFixture(t *testing.T, name string) *fixture {
	t.Helper()
	t.Parallel()
	return fixtureOn(t, devclustertest.Start(t), name)
}

// fixtureOn is newFixture on a cluster, also for benchmarks.
func fixtureOn(t testing.TB, cluster *devclustertest.Cluster, name string) *fixture {
	t.Helper()
	client, err := kubernetes.NewForConfig(cluster.RESTConfig())
	must(t, err)
	h := &fixture{t: t, ctx: t.Context(), dir: t.TempDir(), kubeconfig: cluster.Kubeconfig(), tools: cluster.Tools(t), client: client}
	h.namespace = cluster.Namespace(t)
	t.Cleanup(func() { _ = os.Remove(h.socket()) }) // an operator that is killed leaves it
	archive := txtar.Parse([]byte(name))
	if !strings.Contains(name, "\n") {
		archive, err = txtar.ParseFile(filepath.Join("testdata", name+".txtar"))
		must(t, err)
	}
	for _, dir := range []string{"modules", "global-hooks", "out"} {
		h.mkdir(dir)
	}
	for _, file := range archive.Files {
		h.write(file.Name, string(file.Data))
	}
	return h
}

// environment is what the operator of this fixture needs. Hooks write what they see into
// the directory $OUT.
func (h *fixture) environment() []string {
	return []string{
		"GORACE=" + os.Getenv("GORACE"), // see program_test.go
		"PATH=" + h.tools + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + h.dir, "OUT=" + h.path("out"), "NAMESPACE=" + h.namespace,
		"KUBECONFIG=" + h.kubeconfig, "ADDON_OPERATOR_NAMESPACE=" + h.namespace,
		"MODULES_DIR=" + h.path("modules"), "GLOBAL_HOOKS_DIR=" + h.path("global-hooks"), "ADDON_OPERATOR_TMP_DIR=" + h.path("tmp"),
		"DEBUG_UNIX_SOCKET=" + h.socket(),
		"ADDON_OPERATOR_WATCH_MODULES=no", // tests that change files say when they are compared
	}
}

// socket is where the operator of this fixture answers. The path of a socket has at most 107
// characters, those of tests are longer.
func (h *fixture) socket() string { return filepath.Join(os.TempDir(), h.namespace+".socket") }

func (h *fixture) path(name string) string { return filepath.Join(h.dir, filepath.FromSlash(name)) }

func (h *fixture) mkdir(name string) {
	h.t.Helper()
	must(h.t, os.MkdirAll(h.path(name), 0o755))
}

// write writes a file; what begins like a script is executable.
func (h *fixture) write(name, content string) {
	h.t.Helper()
	h.mkdir(filepath.Dir(name))
	mode := os.FileMode(0o644)
	if strings.HasPrefix(content, "#!") {
		mode = 0o755
	}
	// A program that another test starts meanwhile would have the script open for a moment, too,
	// and it could not be executed (ETXTBSY).
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	must(h.t, os.WriteFile(h.path(name), []byte(content), mode))
}

func (h *fixture) remove(name string) {
	h.t.Helper()
	must(h.t, os.RemoveAll(h.path(name)))
}

// read returns a file, or "" while there is none.
func (h *fixture) read(name string) string {
	data, err := os.ReadFile(h.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		h.t.Fatal(err)
	}
	return string(data)
}

// journal are the lines that hooks have written to out/journal, in one string.
func (h *fixture) journal() string { return strings.Join(strings.Fields(h.read("out/journal")), " ") }

var errNotYet = errors.New("not yet")

// eventually polls until the condition has no more to say. One that takes long, such as a program that it starts, is
// asked less often: other tests want the processor, too.
func (h *fixture) eventually(what string, condition func() error) {
	h.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		began := time.Now()
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("waited %s for %s: %v", patience, what, err)
		}
		select {
		case <-h.ctx.Done():
			h.t.Fatalf("waiting for %s: %v", what, h.ctx.Err())
		case <-time.After(min(max(pollInterval, 2*time.Since(began)), time.Second)):
		}
	}
}

// until is eventually for what has nothing to say.
func (h *fixture) until(what string, condition func() bool) {
	h.t.Helper()
	h.eventually(what, func() error {
		if !condition() {
			return errNotYet
		}
		return nil
	})
}

// becomes waits until what is seen is what is wanted.
func (h *fixture) becomes(what, want string, see func() string) {
	h.t.Helper()
	h.eventually(what, func() error {
		if got := see(); got != want {
			return fmt.Errorf("is %q, want %q", got, want)
		}
		return nil
	})
}

// shows waits until what is seen has all these parts.
func (h *fixture) shows(what string, see func() string, parts ...string) {
	h.t.Helper()
	h.eventually(what, func() error {
		if got := see(); !containsAll(got, parts) {
			return fmt.Errorf("no %q in:\n%s", parts, got)
		}
		return nil
	})
}

// awaitJournal waits until hooks have written exactly these lines, apart by spaces.
func (h *fixture) awaitJournal(want string) {
	h.t.Helper()
	h.becomes("the journal of the hooks", want, h.journal)
}

// setConfig writes keys of the operator's ConfigMap as a person with kubectl would; it
// creates the ConfigMap, and removes keys that have no text.
func (h *fixture) setConfig(texts map[string]string) {
	h.t.Helper()
	maps := h.client.CoreV1().ConfigMaps(h.namespace)
	h.eventually("a write without a conflict", func() error {
		cm, err := maps.Get(h.ctx, "addon-operator", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			cm = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "addon-operator"}, Data: texts}
			_, err = maps.Create(h.ctx, cm, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		if cm.Data == nil {
			cm.Data = map[string]string{}
		}
		for key, text := range texts {
			cm.Data[key] = text
			if text == "" {
				delete(cm.Data, key)
			}
		}
		_, err = maps.Update(h.ctx, cm, metav1.UpdateOptions{})
		return err
	})
}

// config reads the operator's ConfigMap.
func (h *fixture) config() map[string]string {
	h.t.Helper()
	return h.configMap("addon-operator")
}

// configMap reads the data of a ConfigMap; nil while there is none.
func (h *fixture) configMap(name string) map[string]string {
	h.t.Helper()
	cm, err := h.client.CoreV1().ConfigMaps(h.namespace).Get(h.ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(h.t, err)
	return cm.Data
}

// awaitConfigMap waits for a value in a ConfigMap, which charts of tests deploy to show
// what they were rendered with.
func (h *fixture) awaitConfigMap(name, key, want string) {
	h.t.Helper()
	h.eventually("ConfigMap "+name, func() error {
		if data := h.configMap(name); data == nil || data[key] != want {
			return fmt.Errorf("has %v, want %s: %q", data, key, want)
		}
		return nil
	})
}

// revisions are the revisions of a Helm release with their status, such as
// "1:superseded 2:deployed"; "" when there is no release.
func (h *fixture) revisions(release string) string {
	h.t.Helper()
	secrets, err := h.client.CoreV1().Secrets(h.namespace).List(h.ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=" + release})
	must(h.t, err)
	var all []string
	for _, s := range secrets.Items {
		all = append(all, s.Labels["version"]+":"+s.Labels["status"])
	}
	slices.SortFunc(all, func(a, b string) int { return revision(a) - revision(b) })
	return strings.Join(all, " ")
}

func revision(text string) int {
	number, _, _ := strings.Cut(text, ":")
	n, _ := strconv.Atoi(number) // labels of Helm are numbers
	return n
}

func (h *fixture) awaitRevisions(release, want string) {
	h.t.Helper()
	h.becomes("release "+release, want, func() string { return h.revisions(release) })
}

// inFront puts a handler in front of an API server, which is its next one. It returns the path of a kubeconfig that
// leads there.
func inFront(t testing.TB, config *rest.Config, handle func(http.ResponseWriter, *http.Request, http.Handler)) (*httptest.Server, string) {
	t.Helper()
	upstream, err1 := url.Parse(config.Host)
	transport, err2 := rest.TransportFor(config)
	must(t, errors.Join(err1, err2))
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(upstream) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	next := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { _ = recover() }() // the proxy aborts a watch that its client left
		proxy.ServeHTTP(w, r)
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(w, r, next) }))
	t.Cleanup(server.CloseClientConnections)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"c": {Server: server.URL}},
		Contexts: map[string]*clientcmdapi.Context{"c": {Cluster: "c"}}, CurrentContext: "c",
	}, kubeconfig)
	must(t, err)
	return server, kubeconfig
}

// expectAll complains about each text that is missing.
func expectAll(t testing.TB, text string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

// freePort is a port without a listener. It is below those that the kernel gives to
// connections, and above those of test clusters: one of these could be taken until the operator listens.
func freePort(t testing.TB) string {
	t.Helper()
	const lowest, highest = 30000, 32000
	for range 100 {
		port := strconv.FormatInt(lowest+(int64(os.Getpid())*100+nextPort.Add(1))%(highest-lowest), 10)
		if listener, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil { //nolint:noctx // closed at once
			_ = listener.Close()
			return port
		}
	}
	t.Fatal("no port is free")
	return ""
}

// nextPort makes each test ask for another one; the process ID does it for two runs of them.
var nextPort atomic.Int64 //nolint:gochecknoglobals // ports are global

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// second returns the error of a call whose result is not needed.
func second[V any](_ V, err error) error { return err }

// createConfigMap makes a ConfigMap that the hooks of events.txtar watch, or do not.
func (h *fixture) createConfigMap(name, key string, labels map[string]string) *corev1.ConfigMap {
	h.t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Data: map[string]string{"key": key}}
	cm, err := h.client.CoreV1().ConfigMaps(h.namespace).Create(h.ctx, cm, metav1.CreateOptions{})
	must(h.t, err)
	return cm
}

func (h *fixture) updateConfigMap(cm *corev1.ConfigMap) *corev1.ConfigMap {
	h.t.Helper()
	cm, err := h.client.CoreV1().ConfigMaps(h.namespace).Update(h.ctx, cm, metav1.UpdateOptions{})
	must(h.t, err)
	return cm
}

func (h *fixture) deleteConfigMap(name string) {
	h.t.Helper()
	must(h.t, h.client.CoreV1().ConfigMaps(h.namespace).Delete(h.ctx, name, metav1.DeleteOptions{}))
}

// awaitQueue waits until a queue has so many tasks, with the one in progress.
func (o *operator) awaitQueue(name string, length int) {
	o.fixture.t.Helper()
	o.fixture.becomes("the length of queue "+name, strconv.Itoa(length), func() string {
		return o.metric("addon_operator_tasks_queue_length", `queue="`+name+`"`)
	})
}

// awaitTriggers waits until tasks that wait in a queue carry so many events and ticks.
func (o *operator) awaitTriggers(queue string, n int) {
	o.fixture.t.Helper()
	o.fixture.becomes("triggers in queue "+queue, strconv.Itoa(n), func() string {
		return o.metric("addon_operator_tasks_queue_triggers", `queue="`+queue+`"`)
	})
}

func (h *fixture) awaitLines(name string, want ...string) {
	h.t.Helper()
	h.eventually(name, func() error {
		if got := h.lines(name); !slices.Equal(got, want) {
			return fmt.Errorf("has %q, want %q", got, want)
		}
		return nil
	})
}

const startedJournal = "onStartup beforeHelm afterHelm"

func (h *fixture) rename(from, to string) {
	h.t.Helper()
	must(h.t, os.Rename(h.path(from), h.path(to)))
}

// dump asks the running operator for its actors, as a person would in its Pod.
func (o *operator) dump(args ...string) string {
	o.fixture.t.Helper()
	out, err := o.run("", append([]string{"--dump-actors"}, args...)...)
	if err != nil {
		o.fixture.t.Fatalf("--dump-actors %s: %v\n%s", args, err, out)
	}
	return out
}

// The stop comes before the operator is up.
func TestStopWhileTheAPIServerIsAway(t *testing.T) {
	h := newFixture(t, "web")
	o := h.start("KUBE_SERVER=https://127.0.0.1:" + freePort(t))
	o.expect("will retry")
	if code := o.terminate(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}
