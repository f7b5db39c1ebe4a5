package kube

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"addon-operator/kube/objectpatch"
)

// crdSource is one CustomResourceDefinition of a file, without what only the API server may set.
// Nothing changes it after complete: several goroutines read the object.
type crdSource struct {
	file   string // as errors and logs name it
	name   string
	hash   string // of all that is applied, labels of the operator included, but for the hash itself
	object *unstructured.Unstructured
}

// readDefinitions reads files. All errors are returned together; nothing of a file with an error is used.
func readDefinitions(o CRDOptions, files []CRDFile) ([]crdSource, error) {
	var all []crdSource
	var errs []error
	for _, file := range files {
		if o.Skips(file.Name) {
			continue
		}
		found, err := parseDefinitionFile(file.Name, file.Data, o.Labels)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", file.Name, err))
		}
		all = append(all, found...)
	}
	return all, errors.Join(errs...)
}

// Skips reports whether a file is none of definitions, by its name (M1).
func (o CRDOptions) Skips(file string) bool {
	return slices.ContainsFunc(o.SkipPrefixes, func(prefix string) bool { return strings.HasPrefix(filepath.Base(file), prefix) })
}

// parseDefinitionFile reads a YAML stream that may hold nothing but CustomResourceDefinitions, or lists of them.
func parseDefinitionFile(file string, data []byte, labels map[string]string) (all []crdSource, err error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for number := 1; ; number++ {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		var found []*unstructured.Unstructured
		if err == nil {
			found, err = parseDefinition(document)
		}
		for _, object := range found {
			d := crdSource{file: file, name: object.GetName(), object: object}
			if err == nil {
				err = d.complete(labels)
			}
			all = append(all, d)
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", number, err)
		}
	}
}

// maxCRD bounds a document in a file, in bytes: the API server takes objects of 3 MiB (M1).
const maxCRD = 4 << 20

// parseDefinition returns no object for a document with nothing but comments, and several for a
// list. Of duplicate keys the last one wins, as with kubectl and Helm. It
// bounds the document before and after aliases are written out: the YAML library would expand a few lines
// to more than there is memory.
func parseDefinition(document []byte) ([]*unstructured.Unstructured, error) {
	if len(document) > maxCRD {
		return nil, fmt.Errorf("it has %d bytes, more than %d MiB, which no API server accepts", len(document), maxCRD>>20)
	}
	data, err := objectpatch.YAMLToJSON(document)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := utiljson.Unmarshal(data, &tree); err != nil {
		return nil, err
	}
	if tree == nil {
		return nil, nil // only comments
	}
	fields, ok := tree.(map[string]any)
	if !ok {
		return nil, errors.New("it is not an object")
	}
	object := &unstructured.Unstructured{Object: fields}
	if !object.IsList() {
		return []*unstructured.Unstructured{object}, checkDefinition(object)
	}
	list, err := object.ToList()
	if err != nil {
		return nil, err
	}
	var items []*unstructured.Unstructured
	for i := range list.Items {
		if err := checkDefinition(&list.Items[i]); err != nil {
			return nil, err
		}
		items = append(items, &list.Items[i])
	}
	return items, nil
}

// checkDefinition refuses what would reach the API server as another kind, or fail there with an
// error that does not name the fix. The schema is for the API server to judge.
func checkDefinition(object *unstructured.Unstructured) error {
	kind, version := object.GetKind(), object.GetAPIVersion()
	metadata, _ := object.Object["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	_, hasSpec := object.Object["spec"].(map[string]any)
	switch {
	case kind != "CustomResourceDefinition":
		return fmt.Errorf("kind %q does not belong in crds/, where only CustomResourceDefinitions are allowed; move it to templates/ of this module or another", kind)
	case version != "apiextensions.k8s.io/v1":
		return fmt.Errorf("apiVersion %q of CustomResourceDefinition %s is not served by Kubernetes; write it as apiextensions.k8s.io/v1", version, name)
	case name == "":
		return errors.New("CustomResourceDefinition without metadata.name")
	case !hasSpec:
		return fmt.Errorf("CustomResourceDefinition %s has no spec", name)
	}
	return nil
}

// complete removes what only the API server may set, adds the labels, and computes the hash of the
// result. The hash goes into an annotation; it shows whether the definition in the cluster has to
// be applied again, so other labels of the operator lead to another hash, too.
func (d *crdSource) complete(labels map[string]string) error {
	delete(d.object.Object, "status")
	metadata, _ := d.object.Object["metadata"].(map[string]any)
	for _, field := range []string{"creationTimestamp", "generation", "managedFields", "namespace", "resourceVersion", "uid"} {
		delete(metadata, field)
	}
	for _, field := range []string{"labels", "annotations"} {
		if value, there := metadata[field]; there && value == nil { // the API server reads null as absent
			delete(metadata, field)
		}
		if _, _, err := unstructured.NestedStringMap(d.object.Object, "metadata", field); err != nil {
			return fmt.Errorf("CustomResourceDefinition %s: metadata.%s must be a map of strings; quote numbers and booleans", d.name, field)
		}
	}
	all := map[string]string{}
	maps.Copy(all, labels)
	maps.Copy(all, d.object.GetLabels()) // the labels in the file win (M3)
	if len(all) > 0 {
		d.object.SetLabels(all)
	}
	text, err := json.Marshal(d.object.Object)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	d.hash = hex.EncodeToString(sum[:])
	annotations := d.object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[crdHash] = d.hash
	d.object.SetAnnotations(annotations)
	return nil
}

// Definitions reads the CustomResourceDefinitions of a file, as EnsureCRDs does before it applies them.
func Definitions(data []byte) (objects []map[string]any, err error) {
	found, err := parseDefinitionFile("", data, nil)
	for _, d := range found {
		objects = append(objects, d.object.Object)
	}
	return objects, err
}
