package scenario

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/actors"
	"addon-operator/helm"
	"addon-operator/kube"
	"addon-operator/kube/apiserver"
	"addon-operator/messages/view"
)

// Where the operator of a script lives.
const (
	Namespace     = "addon-operator"
	ConfigMapName = "addon-operator"
)

// DefaultVersion is the version of Kubernetes of scripts that name none.
const DefaultVersion = "v1.33.0"

// Cluster is an API server in memory as the operator of a script sees it. The client is the
// one of the operator; watches are notified in the goroutine that makes a change, so that a trace
// is the same each time. It outlives the operator. Note and Deliver are set before the first start,
// and are called from the goroutines that write.
type Cluster struct {
	Server    *apiserver.Server
	Client    *kube.Client
	ConfigMap settings // of the operator
	Secret    settings // with values
	// Note is called with what the operator writes to its ConfigMap and its Secret.
	Note func(format string, args ...any)
	// Deliver is given the events of watches, to call them in their order. It calls them at once until it is set.
	Deliver func(event func())
}

// NewCluster makes an empty cluster of this version of Kubernetes.
func NewCluster(version string, log *slog.Logger) *Cluster {
	c := &Cluster{Server: apiserver.New(version), Note: func(string, ...any) {}, Deliver: func(event func()) { event() }}
	c.Server.EnsureNamespace(Namespace)
	// The configuration names an address; nothing else can be wrong with it.
	c.Client, _ = kube.Connect(kube.Options{Config: c.Server.RESTConfig(), QPS: -1, Log: log})
	c.ConfigMap = settings{c.Client.ConfigMap(Namespace, ConfigMapName), c, "ConfigMap"}
	c.Secret = settings{c.Client.Secret(Namespace, ConfigMapName), c, "Secret"}
	return c
}

// settings are the ConfigMap of the operator, or the Secret with values: for the operator
// (actors.ConfigMap, actors.Secret), and for people who edit them. Reads and writes of the operator
// go through its client, with its conflicts and its limits; people and watches look into
// the server.
type settings struct {
	kube.ConfigMapStore
	cluster *Cluster
	kind    string // ConfigMap or Secret
}

// Watch implements actors.ConfigMap and actors.Secret.
func (s settings) Watch(ctx context.Context, notify func(kube.ConfigMap)) {
	deliver := func(content kube.ConfigMap) { s.cluster.Deliver(func() { notify(content) }) }
	deliver(s.content()) // the watch reports an object that exists only by synced
	spec := kube.Spec{APIVersion: "v1", Kind: s.kind, Namespaces: []string{Namespace}, Names: []string{ConfigMapName}, KeepObjects: true}
	// The spec is valid, and the kind exists.
	_, _ = s.cluster.Server.WatchObjects(ctx, spec, func(c kube.Change) { deliver(c.Content()) }, func() {})
}

func (s settings) content() kube.ConfigMap {
	return kube.ContentOf(s.cluster.Server.Object("v1", s.kind, Namespace, ConfigMapName))
}

// Write implements actors.ConfigMap and actors.Secret. It notes what was written, sorted by key.
func (s settings) Write(ctx context.Context, base map[string]string, set map[string]*string) (kube.ConfigMap, error) {
	written, err := s.ConfigMapStore.Write(ctx, base, set)
	for _, key := range slices.Sorted(maps.Keys(set)) {
		switch {
		case err != nil:
		case set[key] == nil:
			s.cluster.Note("%s: operator removes %s", strings.ToLower(s.kind), key)
		default:
			s.cluster.Note("%s: operator writes %s=%q", strings.ToLower(s.kind), key, *set[key])
		}
	}
	return written, err
}

// RemoveConfirmation implements actors.ConfigMap.
func (s settings) RemoveConfirmation(ctx context.Context, value string) (kube.ConfigMap, error) {
	left, err := s.ConfigMapStore.RemoveConfirmation(ctx, value)
	if err == nil {
		s.cluster.Note("configmap: operator removes the annotation %s=%s", kube.ConfirmPurgeAnnotation, value)
	}
	return left, err
}

// Data is the content; nil when the object does not exist.
func (s settings) Data() map[string]string {
	return s.content().Data
}

// Set replaces the content, as a person would. The data of a Secret are in base64, as in the API.
func (s settings) Set(data map[string]string) error {
	texts := map[string]any{}
	for key, text := range data {
		if s.kind == "Secret" {
			text = base64.StdEncoding.EncodeToString([]byte(text))
		}
		texts[key] = text
	}
	return s.set(texts, "data")
}

// set changes a field of the object, as a person would.
func (s settings) set(value any, fields ...string) error {
	return s.cluster.Set(Reference{"v1", s.kind, Namespace, ConfigMapName}, value, fields...)
}

// Annotate sets an annotation, as a person would.
func (s settings) Annotate(name, value string) error {
	return s.set(value, "metadata", "annotations", name)
}

// Edit changes keys, as a person would; nil removes one.
func (s settings) Edit(keys map[string]*string) error {
	data := s.Data()
	if data == nil {
		data = map[string]string{}
	}
	for key, text := range keys {
		if delete(data, key); text != nil {
			data[key] = *text
		}
	}
	return s.Set(data)
}

// Reference names an object. Without apiVersion it is of the first kind of that name.
type Reference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
}

// ParseReference reads KIND NAMESPACE/NAME, or KIND NAME.
func ParseReference(text string) Reference {
	kind, name, _ := strings.Cut(text, " ")
	if namespace, name, ok := strings.Cut(name, "/"); ok {
		return Reference{Kind: kind, Namespace: namespace, Name: name}
	}
	return Reference{Kind: kind, Name: name}
}

// String names the object.
func (r Reference) String() string {
	return strings.TrimSpace(r.Kind + " " + strings.TrimPrefix(r.Namespace+"/"+r.Name, "/"))
}

// Object is an object that has nothing but its name.
func (r Reference) Object() map[string]any {
	u := unstructured.Unstructured{Object: map[string]any{"kind": r.Kind, "metadata": map[string]any{"name": r.Name}}}
	u.SetNamespace(r.Namespace)
	if r.APIVersion != "" {
		u.SetAPIVersion(r.APIVersion)
	}
	return u.Object
}

// Set changes a field of an object as a person would; the object is created when there is none.
func (c *Cluster) Set(r Reference, value any, fields ...string) error {
	object := c.Server.Object(r.APIVersion, r.Kind, r.Namespace, r.Name)
	if object == nil {
		object = r.Object()
	}
	return errors.Join(unstructured.SetNestedField(object, value, fields...), c.Server.Apply(object))
}

// Delete removes an object. It is an error when there is none.
func (c *Cluster) Delete(r Reference) error {
	found, err := c.Server.Delete(r.APIVersion, r.Kind, r.Namespace, r.Name)
	if err == nil && !found {
		err = fmt.Errorf("delete: there is no %s", r)
	}
	return err
}

// WatchObjects is the Watch of actors.World. Everything that a watch reports after its first list
// goes through deliver, so that a script can hold it back without a change of its order.
func (c *Cluster) WatchObjects(ctx context.Context, spec kube.Spec, notify func(kube.Change), synced func()) (actors.Watch, error) {
	return c.Server.WatchObjects(ctx, spec, func(change kube.Change) { c.Deliver(func() { notify(change) }) }, synced)
}

// faults are injected by steps of a script: actions that fail, and that take long. An
// action is named by its kind, such as FaultOfHook, and its hook or release.
type faults struct {
	mu    sync.Mutex     // steps set them in their goroutine, runs use them up in theirs
	fail  map[string]int // how often an action will fail
	lasts map[string]time.Duration
}

// The kinds of actions. Each ends with a space, which no name of a hook or release begins with, so
// that a kind and a name make the key of an action.
const (
	FaultOfHook = "hook "
	FaultOfHelm = "helm "
)

// newFaults makes an empty set.
func newFaults() *faults { return &faults{fail: map[string]int{}, lasts: map[string]time.Duration{}} }

// Clear ends all faults.
func (f *faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.fail)
	clear(f.lasts)
}

// Fail makes the next n actions fail. It replaces what an earlier call has left, so 0 ends the
// fault.
func (f *faults) Fail(action string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail[action] = n
}

// Slow makes an action take so long from now on.
func (f *faults) Slow(action string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lasts[action] = d
}

// Take returns how many of the next n actions fail, and counts them, so that no other caller gets
// the same ones.
func (f *faults) Take(action string, n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := min(n, f.fail[action])
	f.fail[action] -= taken
	return taken
}

// TakeFile is Take for one action on a file: the script may name it by the end of its path. The
// longest name that has a fault is taken.
func (f *faults) TakeFile(kind, path string) bool {
	for more := true; more; _, path, more = strings.Cut(path, "/") {
		if f.Take(kind+path, 1) > 0 {
			return true
		}
	}
	return false
}

// Lasts is how long an action takes.
func (f *faults) Lasts(action string) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lasts[action]
}

// releaseWatch notifies the operator of deleted objects of releases, without a watch of each kind:
// the server reports each deletion. What others write to objects and records it does not notice.
type releaseWatch struct{ server *apiserver.Server }

// Watch implements actors.ReleaseWatch. No controller works here, so what was written is as its
// spec asks for.
func (w releaseWatch) Watch(ctx context.Context, news helm.News) (assess func([]helm.Object)) {
	w.server.OnGone(func(object map[string]any) {
		u := &unstructured.Unstructured{Object: object}
		if ctx.Err() != nil || u.GetAnnotations()["meta.helm.sh/release-name"] == "" {
			return
		}
		gvk := u.GroupVersionKind()
		gvk.Version = "" // as News names objects
		news.Gone(helm.Object{GVK: gvk, Namespace: u.GetNamespace(), Name: u.GetName()})
	})
	return func(written []helm.Object) {
		for _, o := range written {
			news.Health(o, helm.Health{State: view.ObjectCurrent})
		}
	}
}

// Present implements actors.ReleaseWatch.
func (w releaseWatch) Present(o helm.Object) bool {
	return w.server.Object("", o.GVK.Kind, o.Namespace, o.Name) != nil
}

// Exists implements actors.ReleaseWatch.
func (w releaseWatch) Exists(o helm.Object) bool { return w.Present(o) }
