package apiserver

import (
	"fmt"
	"strconv"

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

// checkFields drops what the kind of an object does not have, and reports it to the observer.
// Without an observer nothing is checked, and u stays as it is. A check reports a bounded number of
// problems, so the object is checked again after each round in which fields were dropped.
func (s *store) checkFields(k *kind, u *unstructured.Unstructured) error {
	for again := s.unknown != nil; again; {
		again = false
		for _, p := range s.checker().Check(u.Object) {
			switch {
			case k.custom:
				s.unknown(u.Object, p)
			case !p.Unknown:
				return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %s", k.name, k.Version, k.name, p))
			default:
				s.unknown(u.Object, p)
				drop(u.Object, p.Path)
				again = true
			}
		}
	}
	return nil
}

// drop removes the key to which a path leads. The path is one that Check has returned, so it leads
// there.
func drop(object map[string]any, path []string) {
	last := len(path) - 1
	var at any = object
	for _, step := range path[:last] {
		switch v := at.(type) {
		case map[string]any:
			at = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(v) {
				return
			}
			at = v[i]
		}
	}
	if m, ok := at.(map[string]any); ok {
		delete(m, path[last])
	}
}

// checker returns a checker of the built-in kinds and the present definitions. It is made again for each check,
// which costs little while definitions are few, so it cannot be out of date.
func (s *store) checker() *fields.Checker {
	var crds []map[string]any
	for _, key := range s.sortedKeys(definitions) {
		crds = append(crds, s.objects[key].Object)
	}
	return fields.New(crds...)
}
