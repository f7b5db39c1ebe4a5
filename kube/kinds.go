package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// discoveryInterval is the shortest time between two discoveries that are made because a kind was
// not found: a hook with a misspelt kind must not load the API server.
const discoveryInterval = time.Second

// errNoKind reports that the API server does not serve such a kind now. It is never returned while the
// server of a group that may have the kind does not answer.
var errNoKind = errors.New("the API server has no such kind")

// kind is a resource of the API server as hooks name it.
type kind struct {
	resource   schema.GroupVersionResource
	name       string   // as the API writes it: Pod
	singular   string   // this and the short names are other words for it, as is the resource
	short      []string // none for a kind that was not discovered, which is not looked up
	namespaced bool
	watchable  bool
}

func (k kind) apiVersion() string { return k.resource.GroupVersion().String() }

// kinds resolves the kinds that users write into resources (C15). The answer of discovery is kept
// and asked for again only when something is not found in it, at most once each discoveryInterval.
// client-go's own cache never asks again for an unknown kind.
type kinds struct {
	list catalog

	mu      sync.Mutex // held while discovering: all callers that miss a kind wait for one answer
	fetched time.Time  // when the last answer came; zero: none yet
	// known is that answer, in the server's order, preferred versions first, so that the first match of a rank is the
	// right one. A kind is in it once for each version.
	known  []kind
	failed map[schema.GroupVersion]error // groups whose server did not answer
	recent recentKinds
}

// recentKinds is the last answer, until RecentKinds has been called.
type recentKinds struct {
	given  bool
	at     time.Time // when it was requested
	groups []*metav1.APIGroup
	lists  []*metav1.APIResourceList
}

// resolve finds the kind; an empty apiVersion means the preferred version.
// The word may be the kind in any case, its plural, its singular or a short
// name (C15). It returns an error that wraps errNoKind when discovery
// is complete and has no such kind, and another error when discovery is incomplete.
// With fresh, an answer older than discoveryInterval is not good enough.
func (k *kinds) resolve(ctx context.Context, apiVersion, word string, fresh bool) (kind, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	due := k.fetched.IsZero() || time.Since(k.fetched) >= discoveryInterval
	if !(fresh && due) {
		if found, ok := k.find(apiVersion, word); ok {
			return found, nil
		}
	}
	if due {
		if err := k.discover(ctx); err != nil {
			return kind{}, err
		}
	}
	if found, ok := k.find(apiVersion, word); ok {
		return found, nil
	}
	return kind{}, k.missing(apiVersion, word)
}

// refresh runs discovery.
func (k *kinds) refresh(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.discover(ctx)
}

// discover replaces what is known. After an error that stays, and is good for all kinds in it. Called with the lock,
// as what follows.
func (k *kinds) discover(ctx context.Context) error {
	begin := time.Now()
	groups, lists, failed, err := k.ask(ctx)
	if err != nil {
		return err
	}
	k.known, k.failed, k.fetched = nil, failed, time.Now()
	if !k.recent.given {
		k.recent.at, k.recent.groups, k.recent.lists = begin, groups, lists
	}
	for _, list := range preferredFirst(groups, lists) {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue // a server that cannot spell its own group serves nothing that can be requested
		}
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") { // else it is a subresource
				k.known = append(k.known, kind{
					resource: gv.WithResource(r.Name), name: r.Kind, singular: r.SingularName, short: r.ShortNames, namespaced: r.Namespaced,
					watchable: slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch"),
				})
			}
		}
	}
	return nil
}

// ask returns what discovery lists, and the groups whose server does not answer.
func (k *kinds) ask(ctx context.Context) (groups []*metav1.APIGroup, lists []*metav1.APIResourceList, failed map[schema.GroupVersion]error, err error) {
	groups, lists, err = k.list(ctx)
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && (!partial || ctx.Err() != nil) { // at the end of ctx, groups look as if they were away
		return nil, nil, nil, fmt.Errorf("discover the kinds of the API server: %w", err)
	}
	return groups, lists, failed, nil
}

// RecentKinds gives away the last discovery, if it is younger than a second and complete: when it was made, and what
// it has listed. Otherwise, and each further time, at is zero. Helm needs the same at the start, a moment after the
// hooks.
func (c *Client) RecentKinds() (at time.Time, groups []*metav1.APIGroup, lists []*metav1.APIResourceList) {
	c.kinds.mu.Lock()
	defer c.kinds.mu.Unlock()
	r := c.kinds.recent
	c.kinds.recent = recentKinds{given: true}
	if len(c.kinds.failed) > 0 || time.Since(r.at) >= discoveryInterval {
		return at, nil, nil
	}
	return r.at, r.groups, r.lists
}

// preferredFirst orders the lists of resources by group, and within it by preference.
func preferredFirst(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) (ordered []*metav1.APIResourceList) {
	byVersion := map[string]*metav1.APIResourceList{}
	for _, list := range lists {
		byVersion[list.GroupVersion] = list
	}
	for _, group := range groups {
		versions := []string{group.PreferredVersion.GroupVersion}
		for _, v := range group.Versions {
			if v.GroupVersion != group.PreferredVersion.GroupVersion {
				versions = append(versions, v.GroupVersion)
			}
		}
		for _, version := range versions {
			if list := byVersion[version]; list != nil {
				ordered = append(ordered, list)
			}
		}
	}
	return ordered
}

// find returns the kind that the word names best; of several the first.
func (k *kinds) find(apiVersion, word string) (best kind, found bool) {
	bestRank := unmatched
	for _, known := range k.known {
		if r := known.rank(word); r < bestRank && (apiVersion == "" || known.apiVersion() == apiVersion) {
			best, bestRank = known, r
		}
	}
	return best, bestRank < unmatched
}

// unmatched is the rank of a resource that does not answer to the word.
const unmatched = 5

// rank orders the ways in which a word can name a resource: 'Pod' is the core
// kind even where another API calls its resource 'pods' as well.
func (k kind) rank(word string) int {
	switch {
	case k.name == word:
		return 0
	case strings.EqualFold(k.name, word):
		return 1
	case strings.EqualFold(k.resource.Resource, word):
		return 2
	case k.singular != "" && strings.EqualFold(k.singular, word):
		return 3
	case slices.ContainsFunc(k.short, func(s string) bool { return strings.EqualFold(s, word) }):
		return 4
	default:
		return unmatched
	}
}

// missing distinguishes a kind that does not exist from one that cannot be looked up: when an aggregated API is away,
// its kinds are not gone. A kind in a version that is not served is answered with those that are.
func (k *kinds) missing(apiVersion, word string) error {
	var away, served []string
	for gv := range k.failed {
		if apiVersion == "" || gv.String() == apiVersion {
			away = append(away, gv.String())
		}
	}
	name := kindLabel(apiVersion, word)
	if len(away) > 0 {
		slices.Sort(away)
		return fmt.Errorf("find %s: the API server cannot list the kinds of %s", name, strings.Join(away, ", "))
	}
	for _, known := range k.known {
		if known.rank(word) != unmatched {
			served = append(served, known.apiVersion())
		}
	}
	if apiVersion != "" && len(served) > 0 {
		slices.Sort(served)
		return fmt.Errorf("find %s: %w; it is served in %s", name, errNoKind, strings.Join(slices.Compact(served), ", "))
	}
	return fmt.Errorf("find %s: %w", name, errNoKind)
}

// kindLabel names a kind in messages.
func kindLabel(apiVersion, word string) string { return strings.TrimPrefix(apiVersion+"/"+word, "/") }

// catalog lists the API groups and the resources of the API server. The error of a partial answer,
// which lacks the groups whose servers do not answer, comes with the groups and resources that
// there are: discovery.GroupDiscoveryFailedErrorGroups takes it apart.
type catalog func(ctx context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error)

// discoveryOf is the catalog of an API server. Discovery in client-go 0.36 takes no context and waits for a silent API
// server for 32 s, so the transport adds the context of a call to each of its requests, which end with the call: no
// part of a discovery continues after an error.
func discoveryOf(config *rest.Config, transport *http.Client) catalog {
	return func(ctx context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		client := *transport
		client.Transport = canceller{ctx: ctx, next: transport.Transport}
		api, err := discovery.NewDiscoveryClientForConfigAndClient(config, &client)
		if err != nil {
			return nil, nil, err
		}
		return api.ServerGroupsAndResources()
	}
}

// canceller cancels requests when ctx ends. They keep their own deadline.
type canceller struct {
	ctx  context.Context
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c canceller) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) }) // list ends c.ctx, and with it this
	return c.next.RoundTrip(req.WithContext(ctx))
}

// Discovery is what an API server reports about itself.
type Discovery struct {
	Version version.Info
	Kinds   []*metav1.APIResourceList // in the server's order, preferred versions first
	Away    []schema.GroupVersion     // whose kinds are unknown: their servers do not answer
}

// Discover asks the API server for its version and for all kinds, past what the client remembers of
// kinds: its callers want what is served now. That some groups do not answer is no error, but in
// Away.
func (c *Client) Discover(ctx context.Context) (Discovery, error) {
	var d Discovery
	data, err := c.core.RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(data, &d.Version)
	}
	if err != nil {
		return d, fmt.Errorf("read the version of the API server: %w", err)
	}
	groups, lists, failed, err := c.kinds.ask(ctx)
	if err != nil {
		return d, err
	}
	d.Kinds = preferredFirst(groups, lists)
	d.Away = slices.SortedFunc(maps.Keys(failed), func(a, b schema.GroupVersion) int { return cmp.Compare(a.String(), b.String()) })
	return d, nil
}

// FindKind resolves what users write, as a kubernetes binding does (C15); an empty apiVersion means
// the preferred version. The answer may be that of an earlier discovery.
func (c *Client) FindKind(ctx context.Context, apiVersion, word string) (resource schema.GroupVersionResource, namespaced bool, err error) {
	found, err := c.kinds.resolve(ctx, apiVersion, word, false)
	return found.resource, found.namespaced, err
}

const (
	// kindPoll is how long a Watch waits until it looks for a missing kind again, if no definition changes before. After
	// a change it looks each discoveryInterval, for kindsSettle: discovery lists a new kind a moment after its
	// definition does, and no event reports that.
	kindPoll    = 30 * time.Second
	kindsSettle = 10 * time.Second
)

// kindChanges knows when kinds may have changed, from the watches of WatchKinds. Without one, or without the right to
// watch definitions, Watches that wait for a kind look for it from time to time (C16).
type kindChanges struct {
	mu      sync.Mutex
	changed chan struct{} // closed at the next change, and replaced
	// What was learned before is old. It is in the future after a change: discovery learns of that a moment later.
	old time.Time
}

func newKindChanges() *kindChanges { return &kindChanges{changed: make(chan struct{})} }

// WatchKinds watches the definitions of kinds, CustomResourceDefinitions and APIServices, until ctx ends. unchanged
// reports whether the kinds of the API server are surely the same as at a time, so that an answer from then is still
// valid.
func (c *Client) WatchKinds(ctx context.Context) (unchanged func(since time.Time) bool) {
	services := schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	var watches []*Watch
	for _, of := range []kind{crdKind(), {resource: services, name: "APIService"}} {
		watches = append(watches, c.definitions.watch(ctx, c.watcher, of))
	}
	return func(since time.Time) bool { return c.definitions.quiet(watches, since) }
}

// watch watches one of the kinds. The first list, with what is in it, is no change of a definition.
func (d *kindChanges) watch(ctx context.Context, watcher *Watcher, of kind) *Watch {
	listed := false
	synced := func() {
		if listed {
			d.ring()
			return
		}
		listed = true
		d.mu.Lock()
		defer d.mu.Unlock()
		if now := time.Now(); now.After(d.old) {
			d.old = now
		}
	}
	spec := Spec{APIVersion: of.apiVersion(), Kind: of.name, known: of, metadata: true}
	w, _ := watcher.Watch(ctx, spec, func(Change) { d.ring() }, synced) // nothing is wrong with the spec
	return w
}

func (d *kindChanges) ring() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.changed)
	d.changed = make(chan struct{})
	d.old = time.Now().Add(kindsSettle)
}

// next returns what is closed at the next change, and how long to wait for it until the next look. Take both before
// looking, so that a change while looking is not missed.
func (d *kindChanges) next() (changed <-chan struct{}, pause time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Now().Before(d.old) {
		return d.changed, discoveryInterval
	}
	return d.changed, kindPoll
}

// quiet reports whether what was learned at some time is true now. A definition may have changed while a watch was
// interrupted, a moment before it was back.
func (d *kindChanges) quiet(watches []*Watch, learned time.Time) bool {
	for _, w := range watches {
		if restored, ok := w.current(); !ok || !restored.IsZero() && !learned.After(restored.Add(kindsSettle)) {
			return false
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return learned.After(d.old)
}

// nothing is the filter of Watches that need only the names of objects.
func nothing(map[string]any) (json.RawMessage, error) { return json.RawMessage("null"), nil }
