package scenario

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/actors/shared"
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

// change changes the object as a person would; it is created when there is none.
func (s Settings) change(change func(u *unstructured.Unstructured)) error {
	return s.cluster.Change(Reference{"v1", s.kind, Namespace, ConfigMapName}, change)
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
	return s.change(func(u *unstructured.Unstructured) { u.Object["data"] = texts })
}

// Annotate sets an annotation, as a person would.
func (s Settings) Annotate(name, value string) error { return s.change(Annotation(name, value)) }

// Annotation is the change that sets an annotation.
func Annotation(name, value string) func(u *unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		annotations := u.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[name] = value
		u.SetAnnotations(annotations)
	}
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
	meta := map[string]any{"name": r.Name}
	if r.Namespace != "" {
		meta["namespace"] = r.Namespace
	}
	object := map[string]any{"kind": r.Kind, "metadata": meta}
	if r.APIVersion != "" {
		object["apiVersion"] = r.APIVersion
	}
	return object
}

// Change changes an object as a person would; it is created when there is none.
func (c *Cluster) Change(r Reference, change func(u *unstructured.Unstructured)) error {
	u := &unstructured.Unstructured{Object: c.Server.Object(r.APIVersion, r.Kind, r.Namespace, r.Name)}
	if u.Object == nil {
		u.Object = r.Object()
	}
	change(u)
	return c.Apply(u.Object)
}

// Apply creates an object or replaces it, status and all, as no client could. One without
// apiVersion is of the first kind of its name; the kind may then be any name of it, such as deploy.
func (c *Cluster) Apply(object map[string]any) error {
	if _, ok := object["apiVersion"]; !ok {
		word, _ := object["kind"].(string)
		apiVersion, kind, found := c.Server.Kind(word)
		if !found {
			return fmt.Errorf("there is no kind %q; the step 'kind %s' creates it", word, word)
		}
		object = maps.Clone(object)
		object["apiVersion"], object["kind"] = apiVersion, kind
	}
	return c.Server.Apply(object)
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
func (c *Cluster) WatchObjects(ctx context.Context, spec kube.Spec, notify func(kube.Change), synced func()) (shared.Watch, error) {
	overflowed := spec.Overflowed
	spec.Overflowed = func() { c.Deliver(overflowed) }
	return c.Server.WatchObjects(ctx, spec, func(change kube.Change) { c.Deliver(func() { notify(change) }) }, synced)
}
