// Package fields finds the parts of an object that an API server would drop or refuse, without an API server:
// fields that the kind does not have, and values of another type. It covers the built-in kinds of
// the Kubernetes version of the client library, and the kinds of given
// CustomResourceDefinitions. Other rules of an API server, such as required fields and patterns,
// are not checked.
//
// A check knows whether an object is right: that of a built-in kind decodes it as an API server does. A walk
// through one that is not asks the check again about each part of it, so that a problem has its exact place.
// Package builtin has what the Kubernetes libraries that this program is built with know of Kubernetes
// itself, without a cluster.
package fields

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	definitions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
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

// New makes a checker for the built-in kinds and those of CustomResourceDefinitions. Of two
// definitions of a kind the last one wins, and each of them wins over a built-in kind.
func New(crds ...map[string]any) *Checker {
	c := &Checker{custom: map[schema.GroupVersionKind]check{}}
	for _, object := range crds {
		var crd definitions.CustomResourceDefinition
		if runtime.DefaultUnstructuredConverter.FromUnstructured(object, &crd) != nil {
			continue // no API server takes it
		}
		for _, version := range crd.Spec.Versions {
			accepts := anything // as a version without a schema does
			if version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
				root := *version.Schema.OpenAPIV3Schema
				root.XEmbeddedResource = true
				accepts = func(object any) error { return fits(&root, object) }
			}
			gv := schema.GroupVersion{Group: crd.Spec.Group, Version: version.Name}
			c.custom[gv.WithKind(crd.Spec.Names.Kind)] = accepts
		}
	}
	return c
}

func anything(any) error { return nil }

// of is the check of a kind; that of an unknown one accepts all. Definitions win over the types of the library,
// which has only those of its own version.
func (c *Checker) of(gvk schema.GroupVersionKind) check {
	if custom, ok := c.custom[gvk]; ok {
		return custom
	}
	if gvk == definitions.SchemeGroupVersion.WithKind("CustomResourceDefinition") { // not in the scheme of client-go
		return func(object any) error { return decode(object, &definitions.CustomResourceDefinition{}) }
	}
	if _, err := scheme.Scheme.New(gvk); err != nil {
		return anything
	}
	return func(object any) error {
		into, _ := scheme.Scheme.New(gvk)
		return decode(object, into)
	}
}

// decode decodes as an API server does.
func decode(object, into any) error {
	data, err := json.Marshal(object)
	if err != nil {
		return err
	}
	unknown, err := kjson.UnmarshalStrict(data, into)
	switch {
	case err != nil:
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	case len(unknown) > 0:
		return errUnknown
	}
	return nil
}

// fits compares a value with the structural schema of a definition. Null is as absent, as for an API server.
func fits(s *definitions.JSONSchemaProps, value any) error {
	is, want := "number", strings.Replace(s.Type, "integer", "number", 1)
	if s.XIntOrString {
		want = "number or string"
	}
	switch value.(type) {
	case nil:
		return nil
	case string:
		is = "string"
	case bool:
		is = "boolean"
	case []any:
		is = "array"
	case map[string]any:
		is = "object"
	}
	if want != "" && !strings.Contains(want, is) {
		return fmt.Errorf("must be of type %s, is %s", want, is)
	}
	if list, ok := value.([]any); ok && s.Items != nil && s.Items.Schema != nil {
		for _, element := range list {
			if err := fits(s.Items.Schema, element); err != nil {
				return err
			}
		}
	}
	object, _ := value.(map[string]any)
	for key, field := range object {
		if err := fieldFits(s, key, field); err != nil {
			return err
		}
	}
	return nil
}

// fieldFits compares one field. Metadata are those of Kubernetes whatever the schema contains, and named properties
// win over additional ones.
func fieldFits(s *definitions.JSONSchemaProps, key string, value any) error {
	property, named := s.Properties[key]
	more := s.AdditionalProperties
	switch {
	case s.XEmbeddedResource && (key == "apiVersion" || key == "kind" || key == "metadata"):
		return decode(map[string]any{key: value}, &metav1.PartialObjectMetadata{})
	case named:
		return fits(&property, value)
	case more != nil && more.Schema != nil:
		return fits(more.Schema, value)
	case more != nil && more.Allows, s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields:
		return nil
	}
	return errUnknown
}

// Newest is the version of Kubernetes of the libraries: nothing is known of later ones. The API server
// in memory reports it.
const Newest = "v1.36.3"

// Has reports whether Kubernetes has a kind in a version, which may be a beta that an API server does
// not serve. The types in the libraries have in their methods the release that has removed them.
func Has(kind schema.GroupVersionKind) bool {
	object, err := scheme.Scheme.New(kind)
	if err != nil {
		return false
	}
	removed, ok := object.(interface{ APILifecycleRemoved() (major, minor int) })
	if !ok {
		return true
	}
	major, minor := removed.APILifecycleRemoved()
	now, _ := strconv.Atoi(strings.Split(Newest, ".")[1])
	return major > 1 || minor > now
}

// Owns reports whether a group is one of Kubernetes itself: no definition of other authors brings
// kinds of it.
func Owns(group string) bool {
	return !strings.Contains(group, ".") || scheme.Scheme.IsGroupRegistered(group)
}
