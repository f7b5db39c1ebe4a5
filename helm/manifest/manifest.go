// Package manifest reads what a chart was rendered to, as leniently as Helm itself: a manifest that
// Helm has installed must be readable, or its release could not be upgraded or removed. Everything
// is bounded before it is parsed.
package manifest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Object names one object of a manifest. It is comparable; but two mentions of one object may
// differ in the version of the API and in an omitted namespace.
type Object struct {
	GVK       schema.GroupVersionKind
	Namespace string // empty: the namespace of the release, or the kind has none
	Name      string
}

// String returns "Kind namespace/name".
func (o Object) String() string {
	if o.Namespace == "" {
		return o.GVK.Kind + " " + o.Name
	}
	return o.GVK.Kind + " " + o.Namespace + "/" + o.Name
}

// NamespacedName is the object without its kind.
func (o Object) NamespacedName() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
}

// Of names an object.
func Of(u *unstructured.Unstructured) Object {
	return Object{GVK: u.GroupVersionKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
}

// Parse reads a YAML stream, if it is within the limits (Check). Empty documents are left out,
// lists are flattened. One document that cannot be read makes the whole stream an error.
func Parse(text string) ([]*unstructured.Unstructured, error) {
	if err := Check(text); err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		found, err := parseDocument(document)
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
}

// parseDocument makes objects of one document. A list is flattened; an empty document has no objects. An error never
// quotes the document: it may be a Secret.
func parseDocument(document []byte) ([]*unstructured.Unstructured, error) {
	data := document // JSON has escapes that YAML lacks
	if !json.Valid(document) {
		var err error
		if data, err = yaml.YAMLToJSON(document); err != nil {
			return nil, err
		}
	}
	var tree any
	if err := utiljson.Unmarshal(data, &tree); err != nil || tree == nil {
		return nil, err
	}
	fields, ok := tree.(map[string]any)
	if !ok {
		return nil, errors.New("a document is not an object with apiVersion and kind; does a template print text outside of comments?")
	}
	u := &unstructured.Unstructured{Object: fields}
	if err := checkTypes(u); err != nil {
		return nil, err
	}
	if !u.IsList() {
		return []*unstructured.Unstructured{u}, nil
	}
	return listItems(u)
}

// checkTypes refuses what no API server takes, and reads what has no value as the
// server does: "labels:" is no labels, "key:" below it an empty text. The accessors of
// unstructured objects would see no labels at all because of it.
func checkTypes(u *unstructured.Unstructured) error {
	if u.GetKind() == "" {
		return errors.New("a document has no kind")
	}
	metadata, isMap := u.Object["metadata"].(map[string]any)
	if !isMap && u.Object["metadata"] != nil {
		return fmt.Errorf("%s: metadata is not a map", u.GetKind())
	}
	for _, field := range []string{"labels", "annotations"} {
		texts, _ := metadata[field].(map[string]any)
		if value, there := metadata[field]; there && value == nil {
			delete(metadata, field)
		}
		for key, value := range texts {
			if value == nil {
				texts[key] = ""
			}
		}
	}
	return nil
}

// listItems are the objects in a list. An item without kind and version has those of the list, as
// in kubectl and Helm: a ConfigMapList has ConfigMaps.
func listItems(list *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var items []*unstructured.Unstructured
	err := list.EachListItem(func(o runtime.Object) error {
		item, ok := o.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("%s: an item is not an object", list.GetKind())
		}
		if item.GetKind() == "" && item.GetAPIVersion() == "" {
			item.SetKind(strings.TrimSuffix(list.GetKind(), "List"))
			item.SetAPIVersion(list.GetAPIVersion())
		}
		items = append(items, item)
		return checkTypes(item)
	})
	if err != nil {
		return nil, err
	}
	return items, nil
}
