// Package fields finds the parts of an object that an API server would drop or refuse, without an API server:
// fields that the kind does not have, and values of another type. It covers the built-in kinds of
// the Kubernetes version of the client library, and the kinds of given
// CustomResourceDefinitions. Other rules of an API server, such as required fields and patterns,
// are not checked.
//
// A kind has a shape, which is either a Go type of the library (builtin.go) or a schema of a
// definition (custom.go). A walk visits object and shape together.
package fields

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Problem is a field that an object cannot have as it is.
type Problem struct {
	Path    []string // keys and indices that lead to it
	Unknown bool     // the kind has no such field; otherwise its value is what is wrong
	Known   []string // of an unknown field: the fields that exist in its place, sorted
	message string   // of a wrong value: what it must be, what it is, and what to write
}

// String is what is wrong, in the words of an API server for unknown fields.
func (p Problem) String() string {
	if p.Unknown {
		return `unknown field "` + p.Place() + `"`
	}
	return p.Place() + ": " + p.message
}

// Place is the path as people write it: spec.containers[0].image. A step of digits counts as an
// index, although a key may be one, too: the path does not distinguish them.
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

// mostProblems is how many problems of an object are reported: an object of a tenant may have
// any number.
const mostProblems = 20

// Checker checks objects. It is safe for concurrent use.
type Checker struct {
	custom map[schema.GroupVersionKind]shape
}

// New makes a checker for the built-in kinds and those of CustomResourceDefinitions. Of two
// definitions of a kind the last one wins, and each of them wins over a built-in kind.
func New(definitions ...map[string]any) *Checker {
	c := &Checker{custom: map[schema.GroupVersionKind]shape{}}
	for _, crd := range definitions {
		maps.Copy(c.custom, defined(crd))
	}
	return c
}

// Check lists the problems of an object, up to 20, in the order of the fields' names. It
// finds none in objects of unknown kinds.
func (c *Checker) Check(object map[string]any) []Problem { return c.walked(object, false) }

// Prune is Check that removes all unknown fields from the object.
func (c *Checker) Prune(object map[string]any) []Problem { return c.walked(object, true) }

func (c *Checker) walked(object map[string]any, prune bool) []Problem {
	w := walk{prune: prune}
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	if s := c.shapeOf(apiVersion, kind); s != nil {
		w.visit(s, nil, object)
	}
	return w.problems
}

// shapeOf is the shape of a kind, nil for an unknown kind. Definitions win over the types
// of the library, which has only those of its own version.
func (c *Checker) shapeOf(apiVersion, kind string) shape {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil
	}
	gvk := gv.WithKind(kind)
	if s, ok := c.custom[gvk]; ok {
		return s
	}
	if gvk == apiextensions.SchemeGroupVersion.WithKind("CustomResourceDefinition") {
		return shapeOfType(&apiextensions.CustomResourceDefinition{}) // not in the scheme of client-go
	}
	if typed, err := scheme.Scheme.New(gvk); err == nil {
		return shapeOfType(typed)
	}
	return nil
}

// walk collects the problems of an object.
type walk struct {
	prune    bool
	problems []Problem
}

func (w *walk) add(p Problem) {
	if len(w.problems) < mostProblems {
		w.problems = append(w.problems, p)
	}
}

// visit adds the problems of a value and of what is inside of it. Keys are taken in order, so
// that the same object has the same problems each time. Paths are cloned, because problems keep
// them.
func (w *walk) visit(s shape, path []string, value any) {
	if value == nil || len(w.problems) >= mostProblems && !w.prune {
		return // null is as absent
	}
	wrong, inside := s.check(value)
	if wrong != "" {
		w.add(Problem{Path: path, message: wrong})
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
				w.add(Problem{Path: at, Unknown: true, Known: s.names()})
				if w.prune {
					delete(v, key)
				}
				continue
			}
			w.visit(below, at, v[key])
		}
	case []any:
		for i := range v {
			w.visit(s.element(), append(slices.Clone(path), strconv.Itoa(i)), v[i])
		}
	}
}

// mustBe is the message for a value of a wrong type, with the mistake that people usually make.
func mustBe(want string, value any) string {
	text := fmt.Sprintf("must be %s, is %s", want, typeOf(value))
	written, isText := value.(string)
	switch {
	case want == "a string":
		text += "; put it in quotes, in a template with | quote"
	case want == "a list":
		text += "; begin each element with a dash"
	case isText && want != "a map" && json.Valid([]byte(written)): // true, or a number
		text += "; remove the quotes"
	}
	return text
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
