package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
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
	name       string // as the API writes it: Pod
	namespaced bool
	watchable  bool
}

func (k kind) apiVersion() string { return k.resource.GroupVersion().String() }

// kinds resolves the kinds that users write into resources (C15). The answer of discovery is kept
// and asked for again only when something is not found in it, at most once each discoveryInterval.
// client-go's own cache never asks again for an unknown kind.
type kinds struct {
	server catalog

	mu      sync.Mutex // held while discovering: all callers that miss a kind wait for one answer
	index   *kindIndex // the last answer; nil: none yet. An index never changes
	fetched time.Time  // when index was made
}

func newKinds(server catalog) *kinds { return &kinds{server: server} }

// resolve finds the kind; an empty apiVersion means the preferred version.
// The word may be the kind in any case, its plural, its singular or a short
// name (C15). It returns an error that wraps errNoKind when discovery
// is complete and has no such kind, and another error when discovery is incomplete.
// With fresh, an answer older than discoveryInterval is not good enough.
func (k *kinds) resolve(ctx context.Context, apiVersion, word string, fresh bool) (kind, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.index != nil && !(fresh && k.due()) {
		if found, ok := k.index.find(apiVersion, word); ok {
			return found, nil
		}
	}
	if k.due() {
		if err := k.discover(ctx); err != nil {
			return kind{}, fmt.Errorf("discover the kinds of the API server: %w", err)
		}
	}
	if found, ok := k.index.find(apiVersion, word); ok {
		return found, nil
	}
	return kind{}, k.index.missing(apiVersion, word)
}

// due reports whether discovery may be asked again. Called with k.mu, as discover.
func (k *kinds) due() bool {
	return k.index == nil || time.Since(k.fetched) >= discoveryInterval
}

// refresh runs discovery and returns all kinds that are served, as
// "apiVersion/kind".
func (k *kinds) refresh(ctx context.Context) (map[string]bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.discover(ctx); err != nil {
		return nil, fmt.Errorf("discover the kinds of the API server: %w", err)
	}
	served := map[string]bool{}
	for _, found := range k.index.kinds {
		served[kindLabel(found.apiVersion(), found.name)] = true
	}
	return served, nil
}

// discover replaces the index. After an error the old one stays, and is good for all kinds in it.
func (k *kinds) discover(ctx context.Context) error {
	groups, lists, err := k.server.list(ctx)
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && (!partial || ctx.Err() != nil) {
		return err // at the end of ctx, groups look as if they were away
	}
	k.index = newKindIndex(groups, lists, failed)
	k.fetched = time.Now()
	return nil
}

// kindIndex is one answer of discovery: the kinds in the server's order, preferred versions first,
// so that the first match of a rank is the right one. A kind is in it once for each version.
type kindIndex struct {
	kinds  []kind
	words  []words                       // words[i] are those of kinds[i]
	failed map[schema.GroupVersion]error // groups whose server did not answer
}

// words are the names, other than the kind, that a resource answers to.
type words struct {
	plural, singular string
	short            []string
}

func newKindIndex(groups []*metav1.APIGroup, lists []*metav1.APIResourceList, failed map[schema.GroupVersion]error) *kindIndex {
	x := &kindIndex{failed: failed}
	for _, list := range preferredFirst(groups, lists) {
		x.add(list.GroupVersion, list.APIResources)
	}
	return x
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

func (x *kindIndex) add(groupVersion string, resources []metav1.APIResource) {
	gv, err := schema.ParseGroupVersion(groupVersion)
	if err != nil {
		return // a server that cannot spell its own group serves nothing that can be requested
	}
	for _, r := range resources {
		if strings.Contains(r.Name, "/") {
			continue // a subresource
		}
		x.kinds = append(x.kinds, kind{
			resource:   gv.WithResource(r.Name),
			name:       r.Kind,
			namespaced: r.Namespaced,
			watchable:  slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch"),
		})
		x.words = append(x.words, words{plural: r.Name, singular: r.SingularName, short: r.ShortNames})
	}
}

// find returns the kind that the word names best; of several the first.
func (x *kindIndex) find(apiVersion, word string) (kind, bool) {
	best, bestRank := -1, unmatched
	for i, k := range x.kinds {
		if apiVersion != "" && k.apiVersion() != apiVersion {
			continue
		}
		if r := rank(k.name, x.words[i], word); r < bestRank {
			best, bestRank = i, r
		}
	}
	if best < 0 {
		return kind{}, false
	}
	return x.kinds[best], true
}

// unmatched is the rank of a resource that does not answer to the word.
const unmatched = 5

// rank orders the ways in which a word can name a resource: 'Pod' is the core
// kind even where another API calls its resource 'pods' as well.
func rank(kindName string, w words, word string) int {
	switch {
	case kindName == word:
		return 0
	case strings.EqualFold(kindName, word):
		return 1
	case strings.EqualFold(w.plural, word):
		return 2
	case w.singular != "" && strings.EqualFold(w.singular, word):
		return 3
	case slices.ContainsFunc(w.short, func(s string) bool { return strings.EqualFold(s, word) }):
		return 4
	default:
		return unmatched
	}
}

// missing distinguishes a kind that does not exist from one that cannot be looked up: when an
// aggregated API is away, its kinds are not gone.
func (x *kindIndex) missing(apiVersion, word string) error {
	var away []string
	for gv := range maps.Keys(x.failed) {
		if apiVersion == "" || gv.String() == apiVersion {
			away = append(away, gv.String())
		}
	}
	name := kindLabel(apiVersion, word)
	if len(away) > 0 {
		slices.Sort(away)
		return fmt.Errorf("find %s: the API server cannot list the kinds of %s", name, strings.Join(away, ", "))
	}
	if versions := x.versionsOf(word); apiVersion != "" && len(versions) > 0 {
		return fmt.Errorf("find %s: %w; it is served in %s", name, errNoKind, strings.Join(versions, ", "))
	}
	return fmt.Errorf("find %s: %w", name, errNoKind)
}

// versionsOf lists the API versions in which a kind is served.
func (x *kindIndex) versionsOf(word string) []string {
	var versions []string
	for i, k := range x.kinds {
		if rank(k.name, x.words[i], word) != unmatched {
			versions = append(versions, k.apiVersion())
		}
	}
	slices.Sort(versions)
	return slices.Compact(versions)
}

// kindLabel names a kind in messages.
func kindLabel(apiVersion, word string) string {
	if apiVersion == "" {
		return word
	}
	return apiVersion + "/" + word
}
