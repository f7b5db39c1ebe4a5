package helm

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// managedByHelm selects what Helm put into the cluster: it sets this label on
// every object, whatever the chart says.
const managedByHelm = "app.kubernetes.io/managed-by=Helm"

// pollPause is how often objects are asked for whose kind may not be watched.
const pollPause = time.Minute

// presence knows which objects of releases exist: one metadata-only watch for
// each kind, shared by all releases, of whose objects only the names are kept.
type presence struct {
	client *Client

	pause  time.Duration // between two polls of a kind; not changed after the start
	mu     sync.Mutex
	ctx    context.Context // of the watches; nil: there are none
	gone   func(Object)
	kinds  map[schema.GroupResource]*kindWatch
	wanted map[string][]Object // by release, as resolved: what its last Apply was about
}

func (p *presence) start(ctx context.Context, gone func(Object)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ctx, p.gone = ctx, gone
}

// kindWatch holds the names of the objects of one kind.
type kindWatch struct {
	presence *presence
	mapping  *meta.RESTMapping

	mu     sync.Mutex
	live   map[nameKey]struct{}
	err    error // live is out of date
	polled time.Time
	once   sync.Once
	ready  chan struct{} // closed when live is complete, or cannot be
}

type nameKey struct{ namespace, name string }

// of returns the watch of a kind; it begins with the first object that asks.
func (p *presence) of(m *meta.RESTMapping) *kindWatch {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx == nil {
		return nil
	}
	kind := m.Resource.GroupResource()
	if k, ok := p.kinds[kind]; ok {
		return k
	}
	if p.kinds == nil {
		p.kinds = map[schema.GroupResource]*kindWatch{}
	}
	k := &kindWatch{presence: p, mapping: m, live: map[nameKey]struct{}{}, ready: make(chan struct{})}
	p.kinds[kind] = k
	p.client.options.Watcher.WatchMetadata(p.ctx, m.Resource, "", managedByHelm, metadataStore{
		set: k.set, unset: k.unset, replace: k.replace, alive: k.alive,
	}, k.failed)
	return k
}

// follow begins to watch the kinds of objects that are about to be applied, and
// does not wait for it.
func (p *presence) follow(objects []Object) {
	for _, o := range objects {
		if _, m, err := p.resolve(o); err == nil {
			p.of(m)
		}
	}
}

// resolve makes two mentions of an object equal: no version, the namespace of
// the release where none is written, and none where the kind has none.
func (p *presence) resolve(o Object) (Object, *meta.RESTMapping, error) {
	m, err := p.client.discovery.mapping(o.GVK)
	if err != nil {
		return o, nil, err
	}
	if !p.client.discovery.isNamespaced(m) {
		o.Namespace = ""
	} else if o.Namespace == "" {
		o.Namespace = p.client.options.Namespace
	}
	o.GVK.Version = ""
	return o, m, nil
}

// absent returns those of the objects that do not exist. What the watches do
// not know, or call absent, is asked for: the watch may be behind our own
// writes.
func (p *presence) absent(ctx context.Context, objects []Object) ([]Object, error) {
	unknown := make([]bool, len(objects))
	var group errgroup.Group
	group.SetLimit(surveyWidth)
	for i, o := range objects {
		resolved, m, err := p.resolve(o)
		if err == nil {
			if k := p.of(m); k != nil && k.has(ctx, resolved) {
				continue
			}
		}
		group.Go(func() error { // an unknown kind is look's business too
			_, exists, err := p.client.look(ctx, o)
			unknown[i] = !exists
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var absent []Object
	for i, o := range objects {
		if unknown[i] {
			absent = append(absent, o)
		}
	}
	return absent, nil
}

// want remembers the objects of a release, for the kinds that must be polled,
// and returns them as News tells of them.
func (p *presence) want(release string, objects []Object) []Object {
	var resolved []Object
	for _, o := range objects {
		if r, _, err := p.resolve(o); err == nil {
			resolved = append(resolved, r)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.wanted == nil {
		p.wanted = map[string][]Object{}
	}
	p.wanted[release] = resolved
	return resolved
}

func (p *presence) forget(release string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.wanted, release)
}

// has reports whether the watch knows that an object exists.
func (k *kindWatch) has(ctx context.Context, o Object) bool {
	select {
	case <-k.ready:
	case <-ctx.Done():
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.live[nameKey{o.Namespace, o.Name}]
	return ok && k.err == nil
}

func (k *kindWatch) object(n nameKey) Object {
	gvk := k.mapping.GroupVersionKind
	gvk.Version = ""
	return Object{GVK: gvk, Namespace: n.namespace, Name: n.name}
}

// ours: other namespaces have releases of other operators, and of people.
func (k *kindWatch) ours(m *metav1.PartialObjectMetadata) bool {
	return m.Annotations[ownerNamespace] == k.presence.client.options.Namespace && m.Annotations[ownerName] != ""
}

func (k *kindWatch) set(m *metav1.PartialObjectMetadata) {
	if !k.ours(m) {
		k.unset(m)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.live[nameKey{m.Namespace, m.Name}] = struct{}{}
}

func (k *kindWatch) unset(m *metav1.PartialObjectMetadata) {
	n := nameKey{m.Namespace, m.Name}
	k.mu.Lock()
	_, existed := k.live[n]
	delete(k.live, n)
	k.mu.Unlock()
	if existed {
		k.presence.gone(k.object(n))
	}
}

func (k *kindWatch) replace(all []*metav1.PartialObjectMetadata, _ string) {
	fresh := make(map[nameKey]struct{}, len(all))
	for _, m := range all {
		if k.ours(m) {
			fresh[nameKey{m.Namespace, m.Name}] = struct{}{}
		}
	}
	k.swap(fresh)
}

func (k *kindWatch) swap(fresh map[nameKey]struct{}) {
	k.mu.Lock()
	old := k.live
	k.live = fresh
	k.mu.Unlock()
	for n := range old {
		if _, still := fresh[n]; !still {
			k.presence.gone(k.object(n))
		}
	}
}

// alive: the names are up to date (again).
func (k *kindWatch) alive() {
	k.mu.Lock()
	k.err = nil
	k.mu.Unlock()
	k.once.Do(func() { close(k.ready) })
}

// failed is called for each failed request of the watch. With a lost connection
// the names stay, but are not relied on. With a kind its objects are gone. What
// may not be watched is polled.
func (k *kindWatch) failed(err error) {
	k.mu.Lock()
	first := k.err == nil
	k.err = err
	k.mu.Unlock()
	switch {
	case apierrors.IsNotFound(err):
		k.swap(map[nameKey]struct{}{})
	case apierrors.IsForbidden(err):
		if first {
			k.presence.client.options.Log.Warn("objects of releases may not be watched; they are asked for each minute: grant list and watch of the metadata of all namespaces to see deletions at once",
				"resource", k.mapping.Resource.GroupResource().String(), "err", err)
		}
		k.poll()
	}
	k.once.Do(func() { close(k.ready) })
}

// poll looks for the objects of all releases that are of this kind.
func (k *kindWatch) poll() {
	p := k.presence
	if time.Since(k.polled) < p.pause {
		return
	}
	k.polled = time.Now() // only the goroutine of the watch comes here
	p.mu.Lock()
	ctx := p.ctx
	var mine []Object
	for _, objects := range p.wanted {
		for _, o := range objects {
			if o.GVK.GroupKind() == k.mapping.GroupVersionKind.GroupKind() {
				mine = append(mine, o)
			}
		}
	}
	p.mu.Unlock()
	for _, o := range mine {
		exact := o
		exact.GVK = k.mapping.GroupVersionKind
		if _, exists, err := p.client.look(ctx, exact); err == nil && !exists {
			p.gone(o)
		}
	}
}

// Present reports whether an object of News is there, as far as the watches
// know; it makes no request. What they do not know counts as present.
func (c *Client) Present(o Object) bool {
	p := &c.presence
	p.mu.Lock()
	var kind *kindWatch
	for _, k := range p.kinds {
		if k.mapping.GroupVersionKind.GroupKind() == o.GVK.GroupKind() {
			kind = k
		}
	}
	p.mu.Unlock()
	if kind == nil {
		return true
	}
	kind.mu.Lock()
	defer kind.mu.Unlock()
	_, ok := kind.live[nameKey{o.Namespace, o.Name}]
	return ok || kind.err != nil && !apierrors.IsNotFound(kind.err)
}

// WatchedKind is one watch of objects, for people.
type WatchedKind struct {
	Resource string // "deployments.apps"
	Objects  int    // of releases of the namespace
	Problem  string // why its objects are not watched; empty when all is well
	Polled   bool   // they are asked for each minute instead
}

// WatchedKinds lists the watches of objects, by resource.
func (c *Client) WatchedKinds() []WatchedKind {
	p := &c.presence
	p.mu.Lock()
	kinds := make(map[string]*kindWatch, len(p.kinds))
	for resource, k := range p.kinds {
		kinds[resource.String()] = k
	}
	p.mu.Unlock()
	var out []WatchedKind
	for _, resource := range sortedKeys(kinds) {
		k := kinds[resource]
		k.mu.Lock()
		w := WatchedKind{Resource: resource, Objects: len(k.live)}
		if k.err != nil {
			w.Problem, w.Polled = k.err.Error(), apierrors.IsForbidden(k.err)
		}
		k.mu.Unlock()
		out = append(out, w)
	}
	return out
}
