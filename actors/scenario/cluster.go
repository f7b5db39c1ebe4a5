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
	"time"

	"addon-operator/actors/shared"
	"addon-operator/kube"
	"addon-operator/kube/apiserver"
	"addon-operator/kube/objectpatch"
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
	ConfigMap Settings      // of the operator
	Secret    Settings      // with values
	objects   *kube.Patcher // executes object patches of hooks
	// Faults may be nil: then no operation on objects fails.
	Faults *Faults
	// Note is called with what the operator writes to its ConfigMap and its Secret. It may be nil.
	Note func(format string, args ...any)
	// Deliver is given the events of watches, to call them in their order. Nil: at once.
	Deliver func(event func())
}

// NewCluster makes an empty cluster of this version of Kubernetes.
func NewCluster(version string, log *slog.Logger) *Cluster {
	c := &Cluster{Server: apiserver.New(version)}
	c.Server.EnsureNamespace(Namespace)
	// The configuration names an address; nothing else can be wrong with it.
	c.Client, _ = kube.Connect(kube.Options{Config: c.Server.RESTConfig(), QPS: -1, Log: log})
	c.objects = kube.NewPatcher(c.Client)
	c.ConfigMap = Settings{c, "ConfigMap", c.Client.ConfigMap(Namespace, ConfigMapName)}
	c.Secret = Settings{c, "Secret", c.Client.Secret(Namespace, ConfigMapName)}
	return c
}

func (c *Cluster) note(format string, args ...any) {
	if c.Note != nil {
		c.Note(format, args...)
	}
}

func (c *Cluster) deliver(event func()) {
	if c.Deliver == nil {
		event()
		return
	}
	c.Deliver(event)
}

// Settings are the ConfigMap of the operator, or the Secret with values: for the operator
// (shared.ConfigMap, shared.Secret), and for people who edit them. Reads and writes of the operator
// go through its client (store), with its conflicts and its limits; people and watches look into
// the server.
type Settings struct {
	cluster *Cluster
	kind    string // ConfigMap or Secret
	store   kube.ConfigMapStore
}

// Read implements shared.ConfigMap and shared.Secret.
func (s Settings) Read(ctx context.Context) (kube.ConfigMap, error) {
	return s.store.Read(ctx)
}

// Watch implements shared.ConfigMap and shared.Secret.
func (s Settings) Watch(ctx context.Context, notify func(kube.ConfigMap)) {
	s.cluster.Server.WatchContent(ctx, s.kind, Namespace, ConfigMapName, func(content kube.ConfigMap) {
		s.cluster.deliver(func() { notify(content) })
	})
}

// Write implements shared.ConfigMap and shared.Secret. It notes what was written, sorted by key.
func (s Settings) Write(ctx context.Context, base map[string]string, set map[string]*string) (kube.ConfigMap, error) {
	written, err := s.store.Write(ctx, base, set)
	for _, key := range slices.Sorted(maps.Keys(set)) {
		switch {
		case err != nil:
		case set[key] == nil:
			s.cluster.note("%s: operator removes %s", strings.ToLower(s.kind), key)
		default:
			s.cluster.note("%s: operator writes %s=%q", strings.ToLower(s.kind), key, *set[key])
		}
	}
	return written, err
}

// RemoveConfirmation implements shared.ConfigMap.
func (s Settings) RemoveConfirmation(ctx context.Context, value string) (kube.ConfigMap, error) {
	left, err := s.store.RemoveConfirmation(ctx, value)
	if err == nil {
		s.cluster.note("configmap: operator removes the annotation %s=%s", kube.ConfirmPurgeAnnotation, value)
	}
	return left, err
}

// Data is the content; nil when the object does not exist.
func (s Settings) Data() map[string]string {
	return s.cluster.Server.Content(s.kind, Namespace, ConfigMapName).Data
}

// annotations are those that the object has, those of the operator, too. They belong to the caller.
func (s Settings) annotations() map[string]any {
	metadata, _ := s.cluster.Server.Object("v1", s.kind, Namespace, ConfigMapName)["metadata"].(map[string]any)
	if annotations, ok := metadata["annotations"].(map[string]any); ok {
		return annotations
	}
	return map[string]any{}
}

// Set replaces the content, as a person would; nil deletes the object. Annotations stay, as when a
// person edits what the API server has.
func (s Settings) Set(data map[string]string) error {
	if data == nil {
		_, err := s.cluster.Delete(Reference{APIVersion: "v1", Kind: s.kind, Namespace: Namespace, Name: ConfigMapName})
		return err
	}
	return s.apply(data, s.annotations())
}

// Annotate sets an annotation, as a person would; the object is created when there is none.
func (s Settings) Annotate(name, value string) error {
	annotations := s.annotations()
	annotations[name] = value
	return s.apply(s.Data(), annotations)
}

// apply replaces the object as a whole. The data of a Secret are in base64, as in the API.
func (s Settings) apply(data map[string]string, annotations map[string]any) error {
	texts := map[string]any{}
	for key, text := range data {
		if s.kind == "Secret" {
			text = base64.StdEncoding.EncodeToString([]byte(text))
		}
		texts[key] = text
	}
	metadata := map[string]any{"namespace": Namespace, "name": ConfigMapName}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	return s.cluster.Apply(map[string]any{"apiVersion": "v1", "kind": s.kind, "data": texts, "metadata": metadata})
}

// Edit changes keys, as a person would; nil removes one.
func (s Settings) Edit(keys map[string]*string) error {
	data := s.Data()
	for key, text := range keys {
		switch {
		case text == nil:
			delete(data, key)
		case data == nil:
			data = map[string]string{key: *text}
		default:
			data[key] = *text
		}
	}
	if data == nil {
		return nil // there was nothing to remove
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
	return map[string]any{"kind": r.Kind, "metadata": meta}
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

// Delete removes an object. It reports whether it existed.
func (c *Cluster) Delete(r Reference) (bool, error) {
	return c.Server.Delete(r.APIVersion, r.Kind, r.Namespace, r.Name)
}

// Write executes object patches, in the form of KUBERNETES_PATCH_PATH, that are not the operator's:
// no fault counts them.
func (c *Cluster) Write(ctx context.Context, text []byte) error {
	patches, err := objectpatch.Parse(text)
	if err == nil {
		_, err = c.objects.ApplyObjectPatches(ctx, patches)
	}
	return err
}

// CheckObjectPatches implements work.Objects.
func (c *Cluster) CheckObjectPatches(ctx context.Context, patches []objectpatch.Patch) error {
	return c.objects.CheckObjectPatches(ctx, patches)
}

// ApplyObjectPatches implements work.Objects. Of the operations that a script lets the API server
// refuse, it counts those of this run, and refuses that many from the first one on; the others are
// executed, as by the real one (K5). Those that were refused are among the ones to repeat.
func (c *Cluster) ApplyObjectPatches(ctx context.Context, patches []objectpatch.Patch) (left []objectpatch.Patch, err error) {
	refused := c.Faults.Take(FaultOfObjects, len(patches))
	select {
	case <-time.After(c.Faults.Lasts(FaultOfObjects)):
	case <-ctx.Done():
	}
	if c.Faults.Died() {
		return patches, ErrDead
	}
	left, err = c.objects.ApplyObjectPatches(ctx, patches[refused:])
	if refused > 0 {
		left, err = slices.Concat(patches[:refused], left), errors.Join(fmt.Errorf("%s: the scenario makes the API server refuse it", patches[0]), err)
	}
	return left, err
}

// WatchObjects is the Watch of shared.World. Everything that a watch reports after its first list
// goes through deliver, so that a script can hold it back without a change of its order.
func (c *Cluster) WatchObjects(ctx context.Context, spec kube.Spec, notify func(kube.Change), synced func()) (shared.Watch, error) {
	overflowed := spec.Overflowed
	spec.Overflowed = func() { c.deliver(overflowed) }
	return c.Server.WatchObjects(ctx, spec, func(change kube.Change) { c.deliver(func() { notify(change) }) }, synced)
}
