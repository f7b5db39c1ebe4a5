// Package fields finds the parts of an object that an API server would drop or refuse, without an API server:
// fields that the kind does not have, and values of another type. It covers the built-in kinds of
// the Kubernetes version of the client library, and the kinds of given
// CustomResourceDefinitions. Other rules of an API server, such as required fields and patterns,
// are not checked.
//
// A check knows whether an object is right (kinds.go): that of a built-in kind decodes it as an API server does. A walk
// through one that is not asks the check again about each part of it, so that a problem has its exact place.
package fields

import (
	"errors"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Problem is a field that an object cannot have as it is.
type Problem struct {
	Path    []string // keys and indices that lead to it
	Unknown bool     // the kind has no such field; otherwise its value is what is wrong
	place   *field.Path
	message string         // of a wrong value
	around  map[string]any // that has the field; nil for an element of a list
}

// String is what is wrong, in the words of an API server.
func (p Problem) String() string {
	if p.Unknown {
		return `unknown field "` + p.place.String() + `"`
	}
	return p.place.String() + ": " + p.message
}

// Drop removes an unknown field from the object that was checked.
func (p Problem) Drop() { delete(p.around, p.Path[len(p.Path)-1]) }

// Checker checks objects. It is safe for concurrent use.
type Checker struct {
	custom map[schema.GroupVersionKind]check
}

// check returns errUnknown, or what is wrong with an object, which may be a part of one. A problem of one
// field does not depend on others.
type check func(object any) error

var errUnknown = errors.New("unknown field")

// mostProblems is how many problems of an object are reported: an object of a tenant may have
// any number.
const mostProblems = 20

// Check lists the problems of an object, up to 20, in the order of the fields' names. It
// finds none in objects of unknown kinds.
func (c *Checker) Check(object map[string]any) []Problem {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	found := problems(Problem{}, object, c.of(schema.FromAPIVersionAndKind(apiVersion, kind)))
	return found[:min(len(found), mostProblems)]
}

// problems are those of a value at the place of p and inside of it, or p itself, if the value is wrong when it is
// empty, too.
func problems(p Problem, value any, of check) (found []Problem) {
	err := of(value)
	if err == nil {
		return nil
	}
	inside := func(step string, place *field.Path, around map[string]any, value any, of check) {
		at := Problem{Path: append(slices.Clone(p.Path), step), place: place, around: around}
		found = append(found, problems(at, value, of)...)
	}
	switch v := value.(type) {
	case map[string]any:
		if of(map[string]any{}) == nil {
			for _, key := range slices.Sorted(maps.Keys(v)) {
				one := func(value any) error { return of(map[string]any{key: value}) }
				inside(key, p.place.Child(key), v, v[key], one)
			}
		}
	case []any:
		if of([]any{}) == nil {
			for i := range v {
				inside(strconv.Itoa(i), p.place.Index(i), nil, v[i], func(value any) error { return of([]any{value}) })
			}
		}
	}
	if len(found) > 0 {
		return found
	}
	p.Unknown, p.message = errors.Is(err, errUnknown), err.Error()
	return []Problem{p}
}
