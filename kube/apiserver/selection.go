package apiserver

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
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

// check refuses fields that a kind cannot be selected by. The two texts are those of API servers:
// the second is for built-in kinds without fields of their own.
func (s selection) check(k *kind) error {
	for _, r := range s.fields.Requirements() {
		switch {
		case r.Field == "metadata.name" || r.Field == "metadata.namespace" || slices.Contains(k.selectable, r.Field):
		case k.custom || len(k.selectable) > 0:
			return fmt.Errorf("field label not supported: %s", r.Field)
		default:
			return fmt.Errorf("%q is not a known field selector: only \"metadata.name\", \"metadata.namespace\"", r.Field)
		}
	}
	return nil
}

// selectableFields are the fields, other than name and namespace, that objects of a built-in kind
// can be selected by. The lists are in the code of kube-apiserver: no discovery shows them.
func selectableFields(resource schema.GroupResource) []string {
	switch resource.String() {
	case "pods":
		return []string{"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork", "status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName"}
	case "events", "events.events.k8s.io":
		return []string{
			"involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid", "involvedObject.apiVersion",
			"involvedObject.resourceVersion", "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type",
		}
	case "secrets":
		return []string{"type"}
	case "nodes":
		return []string{"spec.unschedulable"}
	case "namespaces":
		return []string{"status.phase"}
	case "services":
		return []string{"spec.clusterIP", "spec.type"}
	case "replicationcontrollers", "replicasets.apps":
		return []string{"status.replicas"}
	case "jobs.batch":
		return []string{"status.successful"}
	case "certificatesigningrequests.certificates.k8s.io":
		return []string{"spec.signerName"}
	}
	return nil
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
