// Package fields finds what an API server would drop or refuse in an object, without an API server:
// fields that the kind does not have, and values of another type. It knows the built-in kinds of
// the Kubernetes version that the client library is of, and the kinds of given
// CustomResourceDefinitions. Other rules of an API server, such as required fields and patterns,
// are not checked.
//
// A kind has a shape, which is either a Go type of the library (builtin.go) or a schema of a
// definition (custom.go). walk goes through object and shape together.
package fields

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Problem is a field that an object cannot have as it is.
type Problem struct {
	Path    []string // keys and indices that lead to it
	Known   []string // the fields that exist in its place; nil when its value is what is wrong
	Message string   // what is wrong, without the path
}

// Place is the path as people write it: spec.containers[0].image. A step of digits counts as an
// index, although a key may be one, too: the path does not say which.
func (p Problem) Place() string {
	var place strings.Builder
	for _, step := range p.Path {
		switch {
		case step != "" && strings.Trim(step, "0123456789") == "":
			place.WriteString("[" + step + "]")
		case strings.ContainsAny(step, "./ "):
			place.WriteString("[" + strconv.Quote(step) + "]")
		default:
			place.WriteString("." + step)
		}
	}
	return strings.TrimPrefix(place.String(), ".")
}

// shape is what a value may be. The values are those of decoded JSON, and are never nil.
type shape interface {
	// check returns what is wrong with the value itself, empty for nothing, and whether walk goes
	// on with what is inside of it. It does not after a problem: what is in a map where a list must
	// be is of no interest.
	check(value any) (wrong string, inside bool)
	// field is the shape of a key of a map; nil when there is no such field. It is called only
	// after check has accepted the map.
	field(name string) shape
	// names are the fields, sorted, for proposals. It is called only where field returns nil.
	names() []string
	// element is the shape of the elements of a list. It is called only after check has accepted
	// the list.
	element() shape
}

// mostProblems is about how many problems of an object are reported: an object of a tenant may have
// any number. The unknown fields of one map are not cut.
const mostProblems = 20

// Checker checks objects. It is safe for concurrent use.
type Checker struct {
	custom map[schema.GroupVersionKind]shape
}

// New makes a checker that knows the built-in kinds and those of CustomResourceDefinitions. Of two
// definitions of a kind the last one counts, and each of them before a built-in kind.
func New(definitions ...map[string]any) *Checker {
	c := &Checker{custom: map[schema.GroupVersionKind]shape{}}
	for _, crd := range definitions {
		maps.Copy(c.custom, defined(crd))
	}
	return c
}

// Knows reports whether objects of a kind can be checked.
func (c *Checker) Knows(apiVersion, kind string) bool { return c.shapeOf(apiVersion, kind) != nil }

// Check lists what is wrong with an object, up to 20 problems, in the order of the fields' names.
// Nothing is known to be wrong with objects of kinds that it does not know.
func (c *Checker) Check(object map[string]any) (problems []Problem) {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	if s := c.shapeOf(apiVersion, kind); s != nil {
		walk(s, nil, object, &problems)
	}
	return problems
}

// shapeOf is the shape of a kind, nil for one that is not known. Definitions come before the types
// of the library, which knows only those of its own version.
func (c *Checker) shapeOf(apiVersion, kind string) shape {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil
	}
	gvk := gv.WithKind(kind)
	if s, ok := c.custom[gvk]; ok {
		return s
	}
	if typed, err := scheme.Scheme.New(gvk); err == nil {
		return shapeOfType(typed)
	}
	return nil
}

// walk appends the problems of a value and of what is inside of it. Keys are taken in order, so
// that the same object has the same problems each time. Paths are cloned, because problems keep
// them.
func walk(s shape, path []string, value any, problems *[]Problem) {
	if value == nil || len(*problems) >= mostProblems {
		return // null is as absent
	}
	wrong, inside := s.check(value)
	if wrong != "" {
		*problems = append(*problems, Problem{Path: path, Message: wrong})
	}
	if !inside {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			at := append(slices.Clone(path), key)
			below := s.field(key)
			if below == nil {
				*problems = append(*problems, Problem{Path: at, Known: s.names(), Message: "unknown field"})
				continue
			}
			walk(below, at, v[key], problems)
		}
	case []any:
		for i := range v {
			walk(s.element(), append(slices.Clone(path), strconv.Itoa(i)), v[i], problems)
		}
	}
}

// mustBe says that a value has another type than it must.
func mustBe(want string, value any) string {
	return fmt.Sprintf("must be %s, is %s", want, typeOf(value))
}

// typeOf names the type of a value for people. What is none of the other types of JSON is a number,
// in any of the Go types that decoders make of one.
func typeOf(value any) string {
	switch value.(type) {
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case map[string]any:
		return "a map"
	case []any:
		return "a list"
	}
	return "a number"
}

func isNumber(value any) bool { return typeOf(value) == "a number" }

// anything is the shape of what is not checked, at any depth.
type anything struct{}

func (anything) check(any) (string, bool) { return "", false }
func (anything) field(string) shape       { return anything{} }
func (anything) names() []string          { return nil }
func (anything) element() shape           { return anything{} }
