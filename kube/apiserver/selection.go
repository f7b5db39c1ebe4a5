package apiserver

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// selection is the objects of a resource that a request or a watch of the operator is about. The zero value is not
// valid.
type selection struct {
	resource        schema.GroupResource
	namespace, name string // empty: all
	labels          labels.Selector
	fields          fields.Selector
}

// newSelection parses selectors; empty texts select everything.
func newSelection(labelText, fieldText string) (s selection, err error) {
	if s.labels, err = labels.Parse(labelText); err == nil {
		s.fields, err = fields.ParseSelector(fieldText)
	}
	return s, err
}

// matches reports whether an object is selected; it is nil for one that does not exist.
func (s selection) matches(at key, u *unstructured.Unstructured) bool {
	return u != nil && at.resource == s.resource && (s.namespace == "" || s.namespace == at.namespace) &&
		(s.name == "" || s.name == at.name) && s.labels.Matches(labels.Set(u.GetLabels())) && s.fields.Matches(s.fieldsOf(u))
}

// fieldsOf are the fields that are asked for, by their paths in the object. An absent field, and null, is the empty text.
func (s selection) fieldsOf(u *unstructured.Unstructured) fields.Set {
	set := fields.Set{}
	for _, r := range s.fields.Requirements() {
		if value, _, _ := unstructured.NestedFieldNoCopy(u.Object, strings.Split(r.Field, ".")...); value != nil {
			set[r.Field] = fmt.Sprint(value)
		}
	}
	return set
}

// shows is a change as a watch of the selection shows it, empty for none: an object that begins to match is ADDED, one
// that no longer matches is DELETED in its last matching state, with the version of the change.
func (s selection) shows(e event) (change string, u *unstructured.Unstructured) {
	switch before, after := s.matches(e.key, e.before), s.matches(e.key, e.after); {
	case after && !before:
		return "ADDED", e.after
	case after:
		return "MODIFIED", e.after
	case before:
		gone := e.before.DeepCopy()
		gone.SetResourceVersion(strconv.FormatInt(e.number, 10))
		return "DELETED", gone
	}
	return "", nil
}
