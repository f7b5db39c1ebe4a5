package kube

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// An API server whose etcd is restored from a backup counts its resource versions again from an older one. A watch that
// continues would get no event until the count has passed its version, and all that the operator knows is of a state
// that is gone. So before a reflector continues from a version, a consistent list must not be older. If it is, the
// process ends (Options.WentBack), and is started again (P14).

// continues notes the version from which the reflector wants to continue, and returns the newest one. fresh is whether
// that is the one of a list which has just shown the state of the API server.
func (s *source) continues(version string) (known string, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh = s.listed != "" && s.listed == version
	s.listed = ""
	if version != "" && version != "0" { // else it starts over, perhaps because its version is refused
		s.known = version
	}
	return s.known, fresh
}

// passed returns an error when the API server has gone back behind a version from which the reflector continues.
func (s *source) passed(ctx context.Context, version string) error {
	if known, fresh := s.continues(version); fresh || known == "" {
		return nil
	}
	one := metav1.ListOptions{Limit: 1}
	if strings.HasPrefix(s.key.fields, metav1.ObjectNameField+"=") { // a role may allow to list these names only
		one.FieldSelector = s.key.fields
	}
	list, err := s.api.List(ctx, one)
	switch {
	case apierrors.IsForbidden(err): // a role may allow to watch and not to list
		return nil
	case err != nil:
		return err
	}
	return s.compare(list.GetResourceVersion())
}

// compare returns an error when a consistent list is older than what is known.
func (s *source) compare(version string) error {
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	if !Older(version, known) { // what cannot be compared proves nothing
		return nil
	}
	back := fmt.Errorf("the API server has gone back to an earlier state, as after a restore of etcd: %s were of version %s and are of %s", s.key, known, version)
	if s.wentBack != nil {
		s.wentBack(back)
	}
	return back
}
