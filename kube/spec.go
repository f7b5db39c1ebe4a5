package kube

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// SnapshotLimit is how many bytes the snapshot of one binding may take (P5). It is a quarter
// of the memory of a container of usual size. Without a limit, any user with permission to create objects of a
// watched kind could exhaust the memory of the operator.
const SnapshotLimit = 128 << 20

// Spec selects the objects to watch, and the parts of them to keep (C15).
type Spec struct {
	APIVersion string   // "apps/v1", "v1"; empty: the preferred version of the kind
	Kind       string   // in any case; plural and short names too
	Names      []string // only these objects; empty: all
	Namespaces []string // only there; empty: everywhere. No effect on cluster-wide kinds

	Labels *metav1.LabelSelector // of the objects; nil: all

	// NamespaceLabels selects namespaces by their labels, also those that
	// start or stop to match later. When set, Namespaces is ignored.
	NamespaceLabels *metav1.LabelSelector

	Fields string // field selector, as kubectl takes it

	// KeepObjects keeps the objects as JSON, in addition to the filter results. Without
	// it only names, filter results and checksums are kept.
	KeepObjects bool

	// Limit is how many bytes the Watch may keep, with an overhead for each object;
	// 0 means any number. A Watch that would keep more forgets all, keeps nothing
	// from then on, and calls Overflowed once, in order with notify and synced.
	Limit      int
	Overflowed func()

	// Filter makes the filter result of an object (C37); nil: none. It is
	// called from several goroutines and must not change the object. The
	// object has no managedFields.
	Filter func(object map[string]any) (json.RawMessage, error)

	// These are for what the operator watches itself.
	known    kind        // where the objects are, before discovery is asked; the zero value: it is asked
	metadata bool        // nothing else of the objects is read
	loud     bool        // objects of the first list are notified like those that come later, before synced
	failed   func(error) // called in order with notify: a request has failed, or there is no such kind (errNoKind)
}

// Object is a watched object: what of it is kept (C35).
type Object struct {
	Namespace string // empty for cluster-wide kinds
	Name      string

	Object       json.RawMessage // nil without KeepObjects
	FilterResult json.RawMessage // nil without Filter, or when it failed on this object
}

// The types of a Change, as hooks read them.
const (
	Added    = "Added"
	Modified = "Modified"
	Deleted  = "Deleted"
)

// Change is one change of the objects of a Watch. Seq counts from 1 in each
// Watch, without gaps. A Deleted object is in its last known state.
type Change struct {
	Seq    uint64
	Type   string // Added, Modified or Deleted
	Object Object
	// Version is the resourceVersion of Object; empty when a list showed that it is gone.
	Version string
}

// selection is a Spec with checked selectors, in the API's notation.
type selection struct {
	labels, fields string
}

// compile refuses a spec that can never be right.
func (s Spec) compile() (selection, error) {
	objects, errObjects := labelText(s.Labels)
	_, errNamespaces := labelText(s.NamespaceLabels)
	selector, err := fields.ParseSelector(s.Fields)
	if s.Kind == "" || slices.Contains(s.Names, "") || slices.Contains(s.Namespaces, "") {
		err = errors.New("kind is missing, or an empty name is among the names or namespaces")
	}
	if err := cmp.Or(err, errObjects, errNamespaces); err != nil {
		return selection{}, fmt.Errorf("watch %s: %w", kindLabel(s.APIVersion, s.Kind), err)
	}
	return selection{labels: objects, fields: selector.String()}, nil
}

// labelText writes a selector as the API takes it. Equal selectors give equal
// texts, whatever the order of their parts: sharing depends on it.
func labelText(selector *metav1.LabelSelector) (string, error) {
	if selector == nil {
		return "", nil
	}
	compiled, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return "", err
	}
	return compiled.String(), nil
}

// scope is the share of a Watch that one source covers: one namespace or all
// (empty), one name or all (empty).
type scope = objectKey

// scopes are the shares of the spec in the given namespaces. They are disjoint.
func (s Spec) scopes(namespaces []string) map[scope]bool {
	names := s.Names
	if len(names) == 0 {
		names = []string{""}
	}
	shares := make(map[scope]bool, len(names)*len(namespaces))
	for _, namespace := range namespaces {
		for _, name := range names {
			shares[scope{namespace, name}] = true
		}
	}
	return shares
}

// fieldText is the field selector of one share.
func (s selection) fieldText(name string) string {
	if name == "" {
		return s.fields
	}
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	if s.fields == "" {
		return only
	}
	return only + "," + s.fields
}
