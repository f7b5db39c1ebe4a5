package testkit

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"addon-operator/actors"
	"addon-operator/kube"
	"addon-operator/kube/apiserver"
	"addon-operator/kube/objectpatch"
)

// Where the operator of a script lives.
const (
	operatorNamespace = "addon-operator"
	operatorConfigMap = "addon-operator"
)

// Cluster is an API server in memory as the operator of a script sees it. The client of
// the operator is the real one; watches are notified in the goroutine that makes a change, so
// that a trace is the same each time.
type Cluster struct {
	trace  *Trace
	server *apiserver.Server
	client *kube.Client
	news   lateNews

	mu          sync.Mutex
	refuses     int           // so many operations on objects
	slowObjects time.Duration // of the object patches of a run
	// forbidden are the kinds that the operator may not read, and since when.
	forbidden map[string]time.Time

	wentBack []func(watch string) // who wants to know; the operator asks before a step begins
	// secretForbidden: the operator may not read the Secret with values.
	secretForbidden bool
	dead            *atomic.Bool
}

// NewCluster makes an empty cluster.
func NewCluster(trace *Trace) *Cluster {
	c := &Cluster{trace: trace, server: apiserver.New("v1.33.0"), forbidden: map[string]time.Time{}, dead: &atomic.Bool{}}
	c.server.EnsureNamespace(operatorNamespace)
	// The configuration names an address; nothing else can be wrong with it.
	c.client, _ = kube.Connect(kube.Options{Config: c.server.RESTConfig(), QPS: -1})
	return c
}

// Read implements actors.ConfigMap.
func (c *Cluster) Read(ctx context.Context) (kube.ConfigMap, error) {
	return c.client.ReadConfigMap(ctx, operatorNamespace, operatorConfigMap)
}

// Watch implements actors.ConfigMap.
func (c *Cluster) Watch(ctx context.Context, notify func(kube.ConfigMap)) {
	c.server.WatchConfigMap(ctx, operatorNamespace, operatorConfigMap, func(cm kube.ConfigMap) {
		c.news.tell(func() { notify(cm) })
	})
}

// WentBack is that of actors.World.
func (c *Cluster) WentBack(ctx context.Context, notify func(watch string)) {
	c.wentBack = append(c.wentBack, func(watch string) {
		if ctx.Err() == nil {
			notify(watch)
		}
	})
}

// goBack notifies that a watch has seen the cluster as it was before.
func (c *Cluster) goBack(watch string) {
	for _, notify := range c.wentBack {
		notify(watch)
	}
}

// Write implements actors.ConfigMap.
func (c *Cluster) Write(ctx context.Context, base map[string]string, set map[string]*string) (kube.ConfigMap, error) {
	written, err := c.client.WriteConfigMap(ctx, operatorNamespace, operatorConfigMap, base, set)
	for _, key := range slices.Sorted(maps.Keys(set)) {
		switch {
		case err != nil:
		case set[key] == nil:
			c.trace.Add("configmap: operator removes %s", key)
		default:
			c.trace.Add("configmap: operator writes %s=%q", key, *set[key])
		}
	}
	return written, err
}

// Record implements actors.Notices.
func (c *Cluster) Record(n kube.Notice) {
	where := "event"
	if n.OnConfigMap {
		where = "event on the ConfigMap"
	}
	c.trace.Add("%s: %s: %s", where, n.Reason, firstLine(n.Message))
}

// clusterSecret is the Secret with values.
type clusterSecret struct{ *Cluster }

// Read implements actors.Secret.
func (c clusterSecret) Read(ctx context.Context) (kube.ConfigMap, error) {
	if c.secretForbidden {
		return kube.ConfigMap{}, fmt.Errorf("read Secret %s/%s: %w", operatorNamespace, operatorConfigMap, kube.ErrForbidden)
	}
	return c.client.ReadSecret(ctx, operatorNamespace, operatorConfigMap)
}

// Watch implements actors.Secret.
func (c clusterSecret) Watch(ctx context.Context, notify func(kube.ConfigMap)) {
	c.server.WatchSecret(ctx, operatorNamespace, operatorConfigMap, func(content kube.ConfigMap) {
		c.news.tell(func() { notify(content) })
	})
}

// Write implements actors.Secret.
func (c clusterSecret) Write(ctx context.Context, base map[string]string, set map[string]*string) (kube.ConfigMap, error) {
	written, err := c.client.WriteSecret(ctx, operatorNamespace, operatorConfigMap, base, set)
	for _, key := range slices.Sorted(maps.Keys(set)) {
		switch {
		case err != nil:
		case set[key] == nil:
			c.trace.Add("secret: operator removes %s", key)
		default:
			c.trace.Add("secret: operator writes %s=%q", key, *set[key])
		}
	}
	return written, err
}

// SetSecret replaces the Secret with values, as a person would; nil deletes it.
func (c *Cluster) SetSecret(data map[string]string) {
	if data == nil {
		_, _ = c.server.Delete("v1", "Secret", operatorNamespace, operatorConfigMap) // the kind exists
		return
	}
	texts := map[string]any{}
	for key, text := range data {
		texts[key] = base64.StdEncoding.EncodeToString([]byte(text))
	}
	_ = c.Apply(map[string]any{ // it has all that an object needs
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "data": texts,
		"metadata": map[string]any{"namespace": operatorNamespace, "name": operatorConfigMap},
	})
}

// Secret is the content of the Secret with values; nil when there is none.
func (c *Cluster) Secret() map[string]string {
	return c.server.Secret(operatorNamespace, operatorConfigMap).Data
}

// SetConfigMap edits the data of the ConfigMap, as a person would; nil deletes it.
func (c *Cluster) SetConfigMap(data map[string]string) {
	if data == nil {
		_, _ = c.server.Delete("v1", "ConfigMap", operatorNamespace, operatorConfigMap) // the kind exists
		return
	}
	texts := map[string]any{}
	for key, text := range data {
		texts[key] = text
	}
	metadata := map[string]any{"namespace": operatorNamespace, "name": operatorConfigMap}
	if written := c.server.ConfigMap(operatorNamespace, operatorConfigMap).Written; written != "" {
		metadata["annotations"] = map[string]any{kube.WrittenAnnotation: written}
	}
	_ = c.Apply(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": texts, "metadata": metadata}) // it has all that an object needs
}

// ConfirmPurge annotates the ConfigMap, as a person would; it is created when there is none.
func (c *Cluster) ConfirmPurge(value string) {
	texts := map[string]any{}
	for key, text := range c.ConfigMap() {
		texts[key] = text
	}
	_ = c.Apply(map[string]any{ // it has all that an object needs
		"apiVersion": "v1", "kind": "ConfigMap", "data": texts,
		"metadata": map[string]any{"namespace": operatorNamespace, "name": operatorConfigMap, "annotations": map[string]any{kube.ConfirmPurgeAnnotation: value}},
	})
}

// RemoveConfirmation implements actors.ConfigMap.
func (c *Cluster) RemoveConfirmation(ctx context.Context, value string) (kube.ConfigMap, error) {
	left, err := c.client.RemoveConfirmation(ctx, operatorNamespace, operatorConfigMap, value)
	if err == nil {
		c.trace.Add("configmap: operator removes the annotation %s=%s", kube.ConfirmPurgeAnnotation, value)
	}
	return left, err
}

// NoteWritten implements actors.ConfigMap.
func (c *Cluster) NoteWritten(ctx context.Context, text string) (kube.ConfigMap, error) {
	return c.client.NoteWritten(ctx, operatorNamespace, operatorConfigMap, text)
}

// lastValid keeps the last valid content of the ConfigMap, as the operator does.
type lastValid struct{ cluster *Cluster }

// Read implements actors.LastValid.
func (v lastValid) Read(ctx context.Context) (*kube.LastValid, error) {
	return v.cluster.client.ReadLastValid(ctx, operatorNamespace, operatorConfigMap)
}

// Write implements actors.LastValid.
func (v lastValid) Write(ctx context.Context, kept kube.LastValid) error {
	before, err := v.Read(ctx)
	if err != nil || before == nil {
		before = &kube.LastValid{} // Write fails, too
	}
	err = v.cluster.client.WriteLastValid(ctx, operatorNamespace, operatorConfigMap, kept)
	switch {
	case err != nil || before.Equal(kept):
	case len(kept.Secret) > 0 || len(before.Secret) > 0:
		v.cluster.trace.Add("last valid values: operator keeps %q and of the Secret %q", kept.Config, kept.Secret)
	default:
		v.cluster.trace.Add("last valid values: operator keeps %q", kept.Config)
	}
	return err
}

// String implements actors.LastValid.
func (v lastValid) String() string {
	return "Secret " + operatorNamespace + "/" + kube.LastValidName(operatorConfigMap)
}

// ConfigMap is the content of the ConfigMap; nil when there is none.
func (c *Cluster) ConfigMap() map[string]string {
	return c.server.ConfigMap(operatorNamespace, operatorConfigMap).Data
}

// Apply creates or changes an object. One without apiVersion is of the first kind of its
// name.
func (c *Cluster) Apply(object map[string]any) error {
	if _, ok := object["apiVersion"]; !ok {
		word, _ := object["kind"].(string)
		apiVersion, kind, found := c.server.Kind(word)
		if !found {
			return fmt.Errorf("there is no kind %q; the step 'kind %s' makes it", word, word)
		}
		object = maps.Clone(object)
		object["apiVersion"], object["kind"] = apiVersion, kind
	}
	return c.server.Apply(object)
}

// Delete removes an object. It reports whether it existed.
func (c *Cluster) Delete(kind, namespace, name string) (bool, error) {
	return c.server.Delete("", kind, namespace, name)
}

// CheckObjectPatches implements work.Objects.
func (c *Cluster) CheckObjectPatches(ctx context.Context, patches []objectpatch.Patch) error {
	return c.client.CheckObjectPatches(ctx, patches)
}

// ApplyObjectPatches implements work.Objects.
func (c *Cluster) ApplyObjectPatches(ctx context.Context, patches []objectpatch.Patch) (left []objectpatch.Patch, err error) {
	c.mu.Lock()
	refused := min(c.refuses, len(patches))
	c.refuses -= refused
	slow := c.slowObjects
	c.mu.Unlock()
	select {
	case <-time.After(slow):
	case <-ctx.Done():
	}
	if c.dead.Load() {
		return patches, errDead
	}
	left, err = c.client.ApplyObjectPatches(ctx, patches[refused:])
	if refused > 0 {
		left, err = slices.Concat(patches[:refused], left), errors.Join(fmt.Errorf("%s: the API server was told to refuse it", patches[0]), err)
	}
	return left, err
}

// FailObjects makes the API server refuse the next n operations on objects by hooks.
func (c *Cluster) FailObjects(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuses = n
}

// SlowObjects makes the operations on objects of each later run of a hook take so long.
func (c *Cluster) SlowObjects(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slowObjects = d
}

// WatchObjects is the Watch of actors.World.
func (c *Cluster) WatchObjects(ctx context.Context, spec kube.Spec, notify func(kube.Change), synced func()) (actors.Watch, error) {
	late := func(change kube.Change) { c.news.tell(func() { notify(change) }) }
	return c.server.WatchObjects(ctx, spec, late, synced)
}

// kindsGroup is the API group of kinds that a script makes.
const kindsGroup = "testkit.example.org"

// SetKind makes a kind that Kubernetes does not have exist or not. Watches of a kind that
// comes into being are complete from then on.
func (c *Cluster) SetKind(kind string, exists bool) error {
	plural := strings.ToLower(kind) + "s"
	if !exists {
		_, err := c.server.Delete("", "CustomResourceDefinition", "", plural+"."+kindsGroup)
		return err
	}
	return c.server.Apply(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + kindsGroup},
		"spec": map[string]any{
			"group": kindsGroup, "scope": "Namespaced", "names": map[string]any{"kind": kind, "plural": plural},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}},
		},
	})
}
