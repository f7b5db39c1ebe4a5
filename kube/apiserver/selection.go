package apiserver

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// selection selects objects by selectors. An empty one selects all; the zero value is not valid.
type selection struct {
	labels labels.Selector
	fields fields.Selector
}

// newSelection parses selectors; empty texts select everything.
func newSelection(labelText, fieldText string) (s selection, err error) {
	if s.labels, err = labels.Parse(labelText); err == nil {
		s.fields, err = fields.ParseSelector(fieldText)
	}
	return s, err
}

func (s selection) matches(u *unstructured.Unstructured) bool {
	return s.labels.Matches(labels.Set(u.GetLabels())) && s.fields.Matches(fieldsOf{u.Object})
}

// fieldsOf are the fields of an object as a field selector names them, by their paths in it.
type fieldsOf struct{ object map[string]any }

// Has implements fields.Fields.
func (f fieldsOf) Has(path string) bool {
	_, ok, _ := unstructured.NestedFieldNoCopy(f.object, strings.Split(path, ".")...)
	return ok
}

// Get implements fields.Fields. An absent field, and null, is the empty text.
func (f fieldsOf) Get(path string) string {
	value, ok, _ := unstructured.NestedFieldNoCopy(f.object, strings.Split(path, ".")...)
	if !ok || value == nil {
		return ""
	}
	return fmt.Sprint(value)
}
