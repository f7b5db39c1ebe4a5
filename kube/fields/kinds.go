package fields

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	definitions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
)

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

// fieldFits compares one field. Metadata are those of Kubernetes whatever the schema contains, and named properties win
// over additional ones.
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
