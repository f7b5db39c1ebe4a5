package kinds

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// noteAway notes which APIs do not answer: those that have failed, and those that were listed before, or were away,
// and are not listed any more although they are registered.
func (s *Server) noteAway(now, before *answer, failed map[schema.GroupVersion]error) {
	for gv, err := range failed {
		if !apierrors.IsNotFound(err) {
			now.away[gv] = err
		}
	}
	for _, gv := range slices.AppendSeq(slices.Collect(maps.Keys(before.listed)), maps.Keys(before.away)) {
		if !now.listed[gv] && now.away[gv] == nil {
			if err := s.registered(gv); err != nil {
				now.away[gv] = err
			}
		}
	}
}

// awayErrors are the APIs that did not answer, sorted.
func (a *answer) awayErrors() (all []*AwayError) {
	for gv, err := range a.away {
		all = append(all, &AwayError{gv, err})
	}
	slices.SortFunc(all, func(a, b *AwayError) int { return strings.Compare(apiService(a.Version), apiService(b.Version)) })
	return all
}

// awayIn returns an AwayError when an API of the group did not answer.
func (a *answer) awayIn(group string) error {
	for gv, err := range a.away {
		if gv.Group == group {
			return &AwayError{gv, err}
		}
	}
	return nil
}

// reach is awayIn for an API that lacks a kind. One whose group was never listed may be registered all the same: the
// API server has just started.
func (s *Server) reach(a *answer, gv schema.GroupVersion) error {
	if err := a.awayIn(gv.Group); err != nil {
		return err
	}
	for listed := range a.listed {
		if listed.Group == gv.Group {
			return nil
		}
	}
	if err := s.registered(gv); err != nil {
		return &AwayError{gv, err}
	}
	return nil
}

// registered reads the APIService of an API that is not listed; nil: there is none. An
// operator that may not read it must believe the list.
func (s *Server) registered(gv schema.GroupVersion) error {
	err := s.client.RESTClient().Get().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices", apiService(gv)).
		Do(context.Background()).Error() // discovery takes no context; the transport limits its time
	switch {
	case err == nil:
		return errNotListed
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return nil
	}
	return fmt.Errorf("APIService %s: %w", apiService(gv), err)
}
