package apiserver

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/kube/fields"
)

// FieldProblem is what is wrong with a field of an object.
type FieldProblem = fields.Problem

// OnUnknownField calls f with each field of an object of a client, from now on, that its kind does
// not have. Then the server does as others do: it drops such fields of built-in kinds, and refuses
// values of another type. Those of custom kinds stay, and so f gets their values of another type,
// too. f may not call the server.
func (s *Server) OnUnknownField(f func(object map[string]any, p FieldProblem)) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.unknown = f
}

// checkFields drops what the built-in kind of an object does not have, and reports it to the observer.
// Without an observer nothing is checked, and u stays as it is.
func (s *store) checkFields(k *kind, u *unstructured.Unstructured) error {
	if s.unknown == nil {
		return nil
	}
	for _, p := range s.checker.Check(u.Object) {
		switch {
		case k.custom:
		case p.Unknown:
			p.Drop()
		default:
			return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %s", k.name, k.Version, k.name, p))
		}
		s.unknown(u.Object, p)
	}
	return nil
}
