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

// lister is discovery that notes which APIs do not answer.
type lister struct {
	*discovery.DiscoveryClient
	// registered returns nil when an API is no longer registered, so that its kinds are gone.
	registered func(schema.GroupVersion) error

	mu     sync.Mutex
	listed map[schema.GroupVersion]bool // with kinds, in the last answer
	away   map[schema.GroupVersion]error
}

var _ discovery.AggregatedDiscoveryInterface = (*lister)(nil)

// GroupsAndMaybeResources implements discovery.AggregatedDiscoveryInterface. An API that was listed before, and is not
// any more, is away as long as it is registered.
func (l *lister) GroupsAndMaybeResources() (*metav1.APIGroupList, map[schema.GroupVersion]*metav1.APIResourceList, map[schema.GroupVersion]error, error) {
	groups, lists, failed, err := l.DiscoveryClient.GroupsAndMaybeResources()
	if err != nil {
		return groups, lists, failed, err
	}
	listed := map[schema.GroupVersion]bool{}
	for _, g := range groups.Groups {
		for _, v := range g.Versions {
			gv := schema.GroupVersion{Group: g.Name, Version: v.Version}
			listed[gv] = failed[gv] == nil && (lists == nil || lists[gv] != nil && len(lists[gv].APIResources) > 0)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	away := maps.Clone(failed)
	if away == nil {
		away = map[schema.GroupVersion]error{}
	}
	note := func(gv schema.GroupVersion) {
		if !listed[gv] && away[gv] == nil {
			if err := l.registered(gv); err != nil {
				away[gv] = err
			}
		}
	}
	for gv, was := range l.listed {
		if was {
			note(gv)
		}
	}
	for gv := range l.away {
		note(gv)
	}
	l.listed, l.away = listed, away
	return groups, lists, failed, nil
}

// ServerResourcesForGroupVersion implements discovery.DiscoveryInterface. An API server that does not list all kinds at
// once, such as the one in memory, is asked for those of each API.
func (l *lister) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	list, err := l.DiscoveryClient.ServerResourcesForGroupVersion(version)
	gv, errVersion := schema.ParseGroupVersion(version)
	if err != nil && errVersion == nil && !apierrors.IsNotFound(err) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.away == nil {
			l.away = map[schema.GroupVersion]error{}
		}
		l.away[gv] = err
	}
	return list, err
}

// awayIn returns an AwayError when an API of the group did not answer last.
func (l *lister) awayIn(group string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for gv, err := range l.away {
		if gv.Group == group {
			return &AwayError{gv, err}
		}
	}
	return nil
}

// reach is awayIn for an API that lacks a kind. One whose group was never listed may be registered all the same: the
// API server has just started.
func (l *lister) reach(gv schema.GroupVersion) error {
	if err := l.awayIn(gv.Group); err != nil {
		return err
	}
	l.mu.Lock()
	known := false
	for other, listed := range l.listed {
		known = known || listed && other.Group == gv.Group
	}
	l.mu.Unlock()
	if known {
		return nil
	}
	if err := l.registered(gv); err != nil {
		return &AwayError{gv, err}
	}
	return nil
}

// allAway are the APIs that did not answer last, sorted.
func (l *lister) allAway() []schema.GroupVersion {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Keys(l.away), func(a, b schema.GroupVersion) int {
		return slices.Compare([]string{a.Group, a.Version}, []string{b.Group, b.Version})
	})
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
