package testkit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"addon-operator/actors"
	"addon-operator/kube"
	"addon-operator/kube/objectpatch"
)

// Cluster is an API server in memory: the ConfigMap of the operator, and objects that
// hooks watch. Watches are told in the goroutine that makes a change, so that a trace is
// the same each time.
type Cluster struct {
	trace *Trace

	mu      sync.Mutex
	version int
	data    map[string]string // of the ConfigMap; nil when it does not exist
	notify  func(kube.ConfigMap)
	objects map[objectKey]map[string]any
	watches map[*watch]bool
	absent  map[string]bool // kinds that do not exist
}

type objectKey struct{ kind, namespace, name string }

// NewCluster makes an empty cluster.
func NewCluster(trace *Trace) *Cluster {
	return &Cluster{trace: trace, objects: map[objectKey]map[string]any{}, watches: map[*watch]bool{}, absent: map[string]bool{}}
}

// Read implements actors.ConfigMap.
func (c *Cluster) Read(context.Context) (kube.ConfigMap, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.configMap(), nil
}

func (c *Cluster) configMap() kube.ConfigMap {
	if c.data == nil {
		return kube.ConfigMap{}
	}
	return kube.ConfigMap{ResourceVersion: strconv.Itoa(c.version), Data: maps.Clone(c.data)}
}

// Watch implements actors.ConfigMap.
func (c *Cluster) Watch(_ context.Context, notify func(kube.ConfigMap)) {
	c.mu.Lock()
	c.notify = notify
	cm := c.configMap()
	c.mu.Unlock()
	notify(cm)
}

// Write implements actors.ConfigMap.
func (c *Cluster) Write(_ context.Context, base map[string]string, set map[string]*string) (kube.ConfigMap, error) {
	c.mu.Lock()
	for key := range set {
		old, had := base[key]
		now, has := c.data[key]
		if old != now || had != has {
			cm := c.configMap()
			c.mu.Unlock()
			return cm, kube.ErrConflict
		}
	}
	data := maps.Clone(c.data)
	if data == nil {
		data = map[string]string{}
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		if set[key] == nil {
			delete(data, key)
			c.trace.Add("configmap: operator removes %s", key)
			continue
		}
		data[key] = *set[key]
		c.trace.Add("configmap: operator writes %s=%q", key, *set[key])
	}
	c.mu.Unlock()
	return c.SetConfigMap(data), nil
}

// Record implements actors.Notices.
func (c *Cluster) Record(n kube.Notice) {
	where := "event"
	if n.OnConfigMap {
		where = "event on the ConfigMap"
	}
	c.trace.Add("%s: %s: %s", where, n.Reason, firstLine(n.Message))
}

// SetConfigMap replaces the ConfigMap, as a person would; nil deletes it.
func (c *Cluster) SetConfigMap(data map[string]string) kube.ConfigMap {
	c.mu.Lock()
	c.version++
	c.data = maps.Clone(data)
	cm, notify := c.configMap(), c.notify
	c.mu.Unlock()
	if notify != nil {
		notify(cm)
	}
	return cm
}

// ConfigMap is the content of the ConfigMap.
func (c *Cluster) ConfigMap() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.data)
}

// Disconnect ends all watches, as the end of the process would.
func (c *Cluster) Disconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notify, c.watches = nil, map[*watch]bool{}
}

// Apply creates or changes an object.
func (c *Cluster) Apply(object map[string]any) error {
	key, err := keyOf(object)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.version++
	c.objects[key] = object
	watches := c.sortedWatches()
	c.mu.Unlock()
	for _, w := range watches {
		w.see(key, object)
	}
	return nil
}

// ApplyObjectPatches implements actors.Objects: each named object is changed in some way.
// How exactly is the business of kube, which has its tests for that.
func (c *Cluster) ApplyObjectPatches(_ context.Context, patches []objectpatch.Patch) error {
	for _, p := range patches {
		c.mu.Lock()
		old, exists := c.objects[objectKey{strings.ToLower(p.Kind), p.Namespace, p.Name}]
		version := c.version
		c.mu.Unlock()
		if !exists {
			return fmt.Errorf("%s: there is no such object", p)
		}
		object := maps.Clone(old)
		object["touched"] = float64(version)
		if err := c.Apply(object); err != nil {
			return err
		}
	}
	return nil
}

// Delete removes an object. It reports whether it existed.
func (c *Cluster) Delete(kind, namespace, name string) bool {
	key := objectKey{strings.ToLower(kind), namespace, name}
	c.mu.Lock()
	c.version++
	_, existed := c.objects[key]
	delete(c.objects, key)
	watches := c.sortedWatches()
	c.mu.Unlock()
	for _, w := range watches {
		w.see(key, nil)
	}
	return existed
}

func (c *Cluster) sortedWatches() []*watch {
	return slices.SortedFunc(maps.Keys(c.watches), func(a, b *watch) int { return cmp.Compare(a.id, b.id) })
}

func keyOf(object map[string]any) (objectKey, error) {
	kind, _ := object["kind"].(string)
	meta, _ := object["metadata"].(map[string]any)
	name, _ := meta["name"].(string)
	namespace, _ := meta["namespace"].(string)
	if kind == "" || name == "" {
		return objectKey{}, fmt.Errorf("an object needs kind and metadata.name: %v", object)
	}
	return objectKey{strings.ToLower(kind), namespace, name}, nil
}

// WatchObjects is the Watch of actors.World.
func (c *Cluster) WatchObjects(_ context.Context, spec kube.Spec, notify func(kube.Change), synced func()) (actors.Watch, error) {
	selector := labels.Everything()
	if spec.Labels != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(spec.Labels); err != nil {
			return nil, err
		}
	}
	c.mu.Lock()
	c.version++
	w := &watch{cluster: c, id: c.version, spec: spec, selector: selector, kept: map[objectKey]kube.Object{}, notify: notify}
	c.watches[w] = true
	for key, object := range c.objects {
		if w.matches(key, object) {
			w.kept[key] = w.keep(key, object)
		}
	}
	w.synced = synced
	waits := c.absent[strings.ToLower(spec.Kind)]
	c.mu.Unlock()
	if !waits {
		w.complete()
	}
	return w, nil
}

// SetKind makes a kind exist or not. Watches of a kind that comes into being are complete
// from then on.
func (c *Cluster) SetKind(kind string, exists bool) {
	c.mu.Lock()
	if exists {
		delete(c.absent, strings.ToLower(kind))
	} else {
		c.absent[strings.ToLower(kind)] = true
	}
	watches := c.sortedWatches()
	c.mu.Unlock()
	for _, w := range watches {
		if exists && strings.EqualFold(w.spec.Kind, kind) {
			w.complete()
		}
	}
}

// watch is one watch with its snapshot.
type watch struct {
	cluster  *Cluster
	id       int
	spec     kube.Spec
	selector labels.Selector
	notify   func(kube.Change)

	synced func()

	mu   sync.Mutex
	done bool // the first list is complete
	kept map[objectKey]kube.Object
	seq  uint64
}

func (w *watch) complete() {
	w.mu.Lock()
	was := w.done
	w.done = true
	w.mu.Unlock()
	if !was {
		w.synced()
	}
}

func (w *watch) matches(key objectKey, object map[string]any) bool {
	if object == nil || !strings.EqualFold(key.kind, w.spec.Kind) {
		return false
	}
	if len(w.spec.Names) > 0 && !slices.Contains(w.spec.Names, key.name) {
		return false
	}
	if len(w.spec.Namespaces) > 0 && !slices.Contains(w.spec.Namespaces, key.namespace) {
		return false
	}
	set := labels.Set{}
	meta, _ := object["metadata"].(map[string]any)
	own, _ := meta["labels"].(map[string]any)
	for k, v := range own {
		set[k] = fmt.Sprint(v)
	}
	return w.selector.Matches(set)
}

func (w *watch) keep(key objectKey, object map[string]any) kube.Object {
	kept := kube.Object{Namespace: key.namespace, Name: key.name}
	if w.spec.Filter != nil {
		kept.FilterResult, _ = w.spec.Filter(object)
	}
	if w.spec.KeepObjects || w.spec.Filter == nil {
		kept.Object, _ = json.Marshal(object)
	}
	return kept
}

// see handles a new state of an object, nil when it is gone, by the rules of C38.
func (w *watch) see(key objectKey, object map[string]any) {
	if !strings.EqualFold(key.kind, w.spec.Kind) {
		return
	}
	w.mu.Lock()
	old, had := w.kept[key]
	change := kube.Change{Object: old}
	switch {
	case !w.matches(key, object) && !had:
		w.mu.Unlock()
		return
	case !w.matches(key, object):
		change.Type = kube.Deleted
		delete(w.kept, key)
	default:
		now := w.keep(key, object)
		w.kept[key], change.Object, change.Type = now, now, kube.Added
		if had {
			change.Type = kube.Modified
		}
		if had && w.same(old, now) {
			w.mu.Unlock()
			return
		}
	}
	w.seq++
	change.Seq = w.seq
	w.mu.Unlock()
	w.notify(change)
}

func (w *watch) same(a, b kube.Object) bool {
	if w.spec.Filter != nil {
		return string(a.FilterResult) == string(b.FilterResult)
	}
	return string(a.Object) == string(b.Object)
}

// Snapshot implements actors.Watch.
func (w *watch) Snapshot() ([]kube.Object, uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	objects := slices.Collect(maps.Values(w.kept))
	slices.SortFunc(objects, func(a, b kube.Object) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return objects, w.seq
}

// State implements actors.Watch.
func (w *watch) State() kube.WatchState {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.done {
		return kube.WatchState{Phase: kube.WaitingForKind, Message: "waiting for " + w.spec.Kind}
	}
	return kube.WatchState{Phase: kube.Complete, Kind: w.spec.Kind, Objects: len(w.kept)}
}

// Stop implements actors.Watch.
func (w *watch) Stop() {
	w.cluster.mu.Lock()
	defer w.cluster.mu.Unlock()
	delete(w.cluster.watches, w)
}
