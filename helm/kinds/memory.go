package kinds

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// AwayError reports that the kinds of an API are unknown now, because its server does not answer. It
// is no evidence about its kinds or their objects (P13): they must not be taken for absent.
type AwayError struct {
	Version schema.GroupVersion
	Err     error
}

// Error implements error.
func (e *AwayError) Error() string {
	return fmt.Sprintf("APIService %s is not available, so the kinds of the API %s are unknown: %v", apiService(e.Version), e.Version, e.Err)
}

// Unwrap returns the cause.
func (e *AwayError) Unwrap() error { return e.Err }

// apiService is the name of the APIService that registers an API.
func apiService(gv schema.GroupVersion) string { return gv.Version + "." + gv.Group }

// errNotListed is the cause when an API that is still registered is not among those that
// the API server lists: it has just started, or the server of the API has.
var errNotListed = errors.New("the API server does not list its kinds, although it is registered")

// memory is discovery that keeps earlier answers: an API whose server does not answer keeps the kinds
// that it listed last. client-go's discovery lists such an API as absent. An API is forgotten when
// its APIService is gone (isRegistered). The memory lasts as long as the process.
type memory struct {
	*discovery.DiscoveryClient
	// registered returns nil when an API is no longer registered, so that its kinds are gone.
	registered func(schema.GroupVersion) error

	mu    sync.Mutex
	known map[schema.GroupVersion]*metav1.APIResourceList
	// away are the APIs that did not answer when the kinds were read last.
	away map[schema.GroupVersion]error
}

var _ discovery.AggregatedDiscoveryInterface = (*memory)(nil)

// GroupsAndMaybeResources implements discovery.AggregatedDiscoveryInterface. Without lists,
// the API server lists the kinds of each API separately: see ServerResourcesForGroupVersion.
func (m *memory) GroupsAndMaybeResources() (*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	groups, lists, failed, err := m.DiscoveryClient.GroupsAndMaybeResources()
	if err != nil {
		return groups, lists, failed, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	listed := func(gv schema.GroupVersion) bool { return isListed(groups, gv) }
	if lists != nil {
		listed = func(gv schema.GroupVersion) bool { return lists[gv] != nil && len(lists[gv].APIResources) > 0 }
	}
	away := maps.Clone(failed)
	for gv := range m.known {
		if _, is := failed[gv]; is || listed(gv) {
			continue
		}
		if err := m.registered(gv); err != nil {
			away = with(away, gv, err)
		} else {
			delete(m.known, gv)
		}
	}
	// The callers of discovery get the kinds that were known last. An API of which none are known
	// stays in failed: an error, next to the list of all others.
	for gv := range away {
		addVersion(groups, gv) // it is registered
		if list := m.known[gv]; list != nil && lists != nil {
			lists[gv] = list
			delete(failed, gv)
		}
	}
	for gv, list := range lists {
		if len(list.APIResources) > 0 {
			m.known = with(m.known, gv, list)
		}
	}
	m.away = away
	return groups, lists, failed, nil
}

// ServerResourcesForGroupVersion implements discovery.DiscoveryInterface.
func (m *memory) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	list, err := m.DiscoveryClient.ServerResourcesForGroupVersion(version)
	gv, errVersion := schema.ParseGroupVersion(version)
	if errVersion != nil {
		return list, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil && len(list.APIResources) > 0 {
		m.known = with(m.known, gv, list)
		delete(m.away, gv)
		return list, nil
	}
	if err == nil && m.known[gv] == nil {
		return list, nil // it has no kinds
	}
	if err == nil || apierrors.IsNotFound(err) {
		still := m.registered(gv)
		if still == nil {
			delete(m.known, gv)
			return list, err
		}
		err = still
	}
	m.away = with(m.away, gv, err)
	if known := m.known[gv]; known != nil {
		return known, nil
	}
	return list, err
}

// awayIn returns an AwayError when an API of the group did not answer last.
func (m *memory) awayIn(group string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for gv, err := range m.away {
		if gv.Group == group {
			return &AwayError{gv, err}
		}
	}
	return nil
}

// allAway are the APIs that did not answer last, sorted. Those in unknown have never listed their
// kinds.
func (m *memory) allAway() (all, unknown []schema.GroupVersion) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all = slices.SortedFunc(maps.Keys(m.away), func(a, b schema.GroupVersion) int {
		return slices.Compare([]string{a.Group, a.Version}, []string{b.Group, b.Version})
	})
	for _, gv := range all {
		if m.known[gv] == nil {
			unknown = append(unknown, gv)
		}
	}
	return all, unknown
}

// isRegistered reads the APIService of an API that is no longer listed; nil: there is none. An
// operator that may not read it must believe the list.
func (s *Server) isRegistered(gv schema.GroupVersion) error {
	resp, err := s.http.Get(s.apis + "/apiregistration.k8s.io/v1/apiservices/" + apiService(gv)) //nolint:noctx // discovery takes no context; the transport limits its time
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusForbidden, http.StatusUnauthorized:
		return nil
	case http.StatusOK:
		return errNotListed
	}
	return fmt.Errorf("APIService %s: %s", apiService(gv), resp.Status)
}

func isListed(groups *metav1.APIGroupList, gv schema.GroupVersion) bool {
	return slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool {
		return slices.ContainsFunc(g.Versions, func(v metav1.GroupVersionForDiscovery) bool { return v.GroupVersion == gv.String() })
	})
}

// addVersion puts an API into the list of groups, if it is not there.
func addVersion(groups *metav1.APIGroupList, gv schema.GroupVersion) {
	if isListed(groups, gv) {
		return
	}
	version := metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version}
	i := slices.IndexFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == gv.Group })
	if i < 0 {
		groups.Groups = append(groups.Groups, metav1.APIGroup{Name: gv.Group, PreferredVersion: version})
		i = len(groups.Groups) - 1
	}
	groups.Groups[i].Versions = append(groups.Groups[i].Versions, version)
}

// with sets a key of a map that may be nil.
func with[V any](m map[schema.GroupVersion]V, gv schema.GroupVersion, v V) map[schema.GroupVersion]V {
	if m == nil {
		m = map[schema.GroupVersion]V{}
	}
	m[gv] = v
	return m
}
