package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"addon-operator/testkit/devclustertest"
)

// patience bounds each wait for a condition; the machine may be compiling.
const patience = 2 * time.Minute

// eventually polls until the condition holds.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %v in vain until %s", patience, what)
		}
		<-ticker.C
	}
}

// await receives from the channel.
func await[T any](t testing.TB, what string, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(patience):
		t.Fatalf("waited %v in vain for %s", patience, what)
		panic("unreachable")
	}
}

// testLog sends logs to the test, as long as it runs.
func testLog(t testing.TB) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// world is a client with the rights of an administrator, and what tests need
// to change the cluster with.
type world struct {
	*devclustertest.Cluster
	t     testing.TB
	admin kubernetes.Interface
	// Client is the one under test.
	client *Client
}

func newWorld(t testing.TB, cluster *devclustertest.Cluster) *world {
	t.Helper()
	admin, err := kubernetes.NewForConfig(cluster.RESTConfig())
	must(t, err)
	client, err := Connect(Options{Kubeconfig: cluster.Kubeconfig(), Log: testLog(t)})
	must(t, err)
	return &world{Cluster: cluster, t: t, admin: admin, client: client}
}

func (w *world) watcher() *Watcher { return NewWatcher(w.client, testLog(w.t)) }

// as is a client with the rights of a user without any.
func (w *world) as(user string) *Client {
	w.t.Helper()
	config := w.RESTConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	client, err := newClient(config, testLog(w.t))
	must(w.t, err)
	return client
}

func (w *world) createConfigMap(namespace, name string, data map[string]string) *corev1.ConfigMap {
	w.t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": namespace}}, Data: data}
	created, err := w.admin.CoreV1().ConfigMaps(namespace).Create(w.t.Context(), object, metav1.CreateOptions{})
	must(w.t, err)
	return created
}

func (w *world) updateConfigMap(namespace, name string, change func(*corev1.ConfigMap)) {
	w.t.Helper()
	api := w.admin.CoreV1().ConfigMaps(namespace)
	object, err := api.Get(w.t.Context(), name, metav1.GetOptions{})
	if err == nil {
		change(object)
		_, err = api.Update(w.t.Context(), object, metav1.UpdateOptions{})
	}
	must(w.t, err)
}

func (w *world) deleteConfigMap(namespace, name string) {
	w.t.Helper()
	must(w.t, w.admin.CoreV1().ConfigMaps(namespace).Delete(w.t.Context(), name, metav1.DeleteOptions{}))
}

// configMaps is a spec for the ConfigMaps that createConfigMap makes in the
// namespaces; the filter result is their data.
func configMaps(namespaces ...string) Spec {
	return Spec{
		APIVersion: "v1", Kind: "ConfigMap", Namespaces: namespaces,
		Labels: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "test", Operator: metav1.LabelSelectorOpExists}}},
		Filter: dataOf,
	}
}

func dataOf(object map[string]any) (json.RawMessage, error) { return json.Marshal(object["data"]) }

// listener collects what a Watch reports.
type listener struct {
	t      testing.TB
	watch  *Watch
	synced chan struct{}

	mu      sync.Mutex
	changes []Change
}

// listen starts a Watch.
func listen(t testing.TB, watcher *Watcher, spec Spec) *listener {
	t.Helper()
	l := &listener{t: t, synced: make(chan struct{}, 2)}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	watch, err := watcher.Watch(ctx, spec, l.notify, l.complete)
	must(t, err)
	l.watch = watch
	return l
}

// listenSynced starts a Watch and waits until it is complete.
func listenSynced(t testing.TB, watcher *Watcher, spec Spec) *listener {
	t.Helper()
	l := listen(t, watcher, spec)
	await(t, "synced", l.synced)
	return l
}

func (l *listener) notify(c Change) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changes = append(l.changes, c)
}

// complete notes that the Watch is; a Watch may be so again and again.
func (l *listener) complete() {
	select {
	case l.synced <- struct{}{}:
	default:
	}
}

// lines are the changes so far, each as 'Added a/b {"x":"1"}'.
func (l *listener) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for i, c := range l.changes {
		if c.Seq != uint64(i+1) {
			l.t.Errorf("change %d has Seq %d", i+1, c.Seq)
		}
		lines = append(lines, c.Type+" "+objectLine(c.Object))
	}
	return lines
}

func objectLine(o Object) string {
	return fmt.Sprintf("%s/%s %s", o.Namespace, o.Name, o.FilterResult)
}

// wants waits until exactly these changes were told.
func (l *listener) wants(want ...string) {
	l.t.Helper()
	eventually(l.t, fmt.Sprintf("%d changes are reported; so far: %s", len(want), strings.Join(l.lines(), "; ")),
		func() bool { return len(l.lines()) >= len(want) })
	if got := l.lines(); !slices.Equal(got, want) {
		l.t.Fatalf("changes:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// snapshot is the cache, one line for each object.
func (l *listener) snapshot() []string {
	objects, _ := l.watch.Snapshot()
	var lines []string
	for _, o := range objects {
		lines = append(lines, objectLine(o))
	}
	return lines
}

// bench is a source without an API server: tests play the reflector.
type sourceBench struct {
	t       testing.TB
	source  *source
	watcher *Watcher
}

func newSourceBench(t testing.TB) *sourceBench {
	watcher := NewWatcher(&Client{log: testLog(t), watches: unwatched{}}, testLog(t))
	return &sourceBench{t: t, watcher: watcher, source: watcher.newSource(sourceKey{}, nil)}
}

// watch attaches a Watch that has this source only.
func (b *sourceBench) watch(spec Spec) *listener {
	l := &listener{t: b.t, synced: make(chan struct{}, 2)}
	w := newWatch(b.watcher, spec, selection{}, l.notify, l.complete)
	w.settled, l.watch = true, w
	p := &part{watch: w, source: b.source}
	w.parts[scope{}] = p
	ctx, cancel := context.WithCancel(b.t.Context())
	w.cancel = cancel
	go w.deliver(ctx)
	b.source.attach(p)
	return l
}

// list plays a complete list, as a streaming reflector hands it over.
func (b *sourceBench) list(version string, objects ...*unstructured.Unstructured) {
	b.source.startList()
	b.endList(version, objects...)
}

func (b *sourceBench) endList(version string, objects ...*unstructured.Unstructured) {
	b.t.Helper()
	var records []any
	for _, o := range objects {
		r, err := b.source.Transformer()(o.DeepCopy())
		must(b.t, err)
		records = append(records, r)
	}
	must(b.t, b.source.Replace(records, version))
}

// object makes a ConfigMap; its version makes states distinct.
func object(name, version, value string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{
			"name": name, "namespace": "n", "uid": "uid-of-" + name, "resourceVersion": version,
			"managedFields": []any{map[string]any{"manager": "someone"}},
		},
		"data": map[string]any{"v": value},
	}}
}
