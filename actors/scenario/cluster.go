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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/actors"
	"addon-operator/kube"
	"addon-operator/kube/apiserver"
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
	ConfigMap Settings // of the operator
	Secret    Settings // with values
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
	c.ConfigMap = Settings{c.Client.ConfigMap(Namespace, ConfigMapName), c, "ConfigMap"}
	c.Secret = Settings{c.Client.Secret(Namespace, ConfigMapName), c, "Secret"}
	return c
}

// Settings are the ConfigMap of the operator, or the Secret with values: for the operator
// (shared.ConfigMap, shared.Secret), and for people who edit them. Reads and writes of the operator
// go through its client, with its conflicts and its limits; people and watches look into
// the server.
type Settings struct {
	kube.ConfigMapStore
	cluster *Cluster
	kind    string // ConfigMap or Secret
}

// Watch implements shared.ConfigMap and shared.Secret.
func (s Settings) Watch(ctx context.Context, notify func(kube.ConfigMap)) {
	deliver := func(content kube.ConfigMap) { s.cluster.Deliver(func() { notify(content) }) }
	deliver(s.content()) // the watch reports an object that exists only by synced
	spec := kube.Spec{APIVersion: "v1", Kind: s.kind, Namespaces: []string{Namespace}, Names: []string{ConfigMapName}, KeepObjects: true}
	// The spec is valid, and the kind exists.
	_, _ = s.cluster.Server.WatchObjects(ctx, spec, func(c kube.Change) { deliver(c.Content()) }, func() {})
}

func (s Settings) content() kube.ConfigMap {
	return kube.ContentOf(s.cluster.Server.Object("v1", s.kind, Namespace, ConfigMapName))
}

// Write implements shared.ConfigMap and shared.Secret. It notes what was written, sorted by key.
func (s Settings) Write(ctx context.Context, base map[string]string, set map[string]*string) (kube.ConfigMap, error) {
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

// RemoveConfirmation implements shared.ConfigMap.
func (s Settings) RemoveConfirmation(ctx context.Context, value string) (kube.ConfigMap, error) {
	left, err := s.ConfigMapStore.RemoveConfirmation(ctx, value)
	if err == nil {
		s.cluster.Note("configmap: operator removes the annotation %s=%s", kube.ConfirmPurgeAnnotation, value)
	}
	return left, err
}

// Data is the content; nil when the object does not exist.
func (s Settings) Data() map[string]string {
	return s.content().Data
}

// Set replaces the content, as a person would. The data of a Secret are in base64, as in the API.
func (s Settings) Set(data map[string]string) error {
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
func (s Settings) set(value any, fields ...string) error {
	return s.cluster.Set(Reference{"v1", s.kind, Namespace, ConfigMapName}, value, fields...)
}

// Annotate sets an annotation, as a person would.
func (s Settings) Annotate(name, value string) error {
	return s.set(value, "metadata", "annotations", name)
}

// Edit changes keys, as a person would; nil removes one.
func (s Settings) Edit(keys map[string]*string) error {
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

// WatchObjects is the Watch of shared.World. Everything that a watch reports after its first list
// goes through deliver, so that a script can hold it back without a change of its order.
func (c *Cluster) WatchObjects(ctx context.Context, spec kube.Spec, notify func(kube.Change), synced func()) (actors.Watch, error) {
	overflowed := spec.Overflowed
	spec.Overflowed = func() { c.Deliver(overflowed) }
	return c.Server.WatchObjects(ctx, spec, func(change kube.Change) { c.Deliver(func() { notify(change) }) }, synced)
}
