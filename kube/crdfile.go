package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// CRD is a CustomResourceDefinition of a file.
type CRD struct {
	File   string // as errors and logs name it
	Object *unstructured.Unstructured
}

// crdSource is a CRD without what only the API server may set. Nothing changes it after complete: several goroutines
// read the object.
type crdSource struct {
	file   string
	name   string
	hash   string // of all that is applied, labels of the operator included, but for the hash itself
	object *unstructured.Unstructured
}

// Skips reports whether a file is none of definitions, by its name (M1).
func (o CRDOptions) Skips(file string) bool {
	return slices.ContainsFunc(o.SkipPrefixes, func(prefix string) bool { return strings.HasPrefix(filepath.Base(file), prefix) })
}

// CheckCRDs returns an error that names each file with an object that is no definition, or cannot be one. It makes no
// request.
func CheckCRDs(found []CRD) error {
	var errs []error
	for _, d := range found {
		if err := checkDefinition(d.Object); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", d.File, err))
		}
	}
	return errors.Join(errs...)
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
	for _, field := range []string{"labels", "annotations"} {
		if _, _, err := unstructured.NestedStringMap(object.Object, "metadata", field); err != nil {
			return fmt.Errorf("CustomResourceDefinition %s: metadata.%s must be a map of strings; quote numbers and booleans", name, field)
		}
	}
	return nil
}

// complete removes what only the API server may set, adds the labels, and computes the hash of the
// result. The hash goes into an annotation; it shows whether the definition in the cluster has to
// be applied again, so other labels of the operator lead to another hash, too.
func (d CRD) complete(labels map[string]string) (crdSource, error) {
	object := d.Object.DeepCopy()
	delete(object.Object, "status")
	for _, field := range []string{"creationTimestamp", "generation", "managedFields", "namespace", "resourceVersion", "uid"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	all := map[string]string{}
	maps.Copy(all, labels)
	maps.Copy(all, object.GetLabels()) // the labels in the file win (M3)
	if len(all) > 0 {
		object.SetLabels(all)
	}
	text, err := json.Marshal(object.Object)
	if err != nil {
		return crdSource{}, err
	}
	sum := sha256.Sum256(text)
	hash := hex.EncodeToString(sum[:])
	_ = unstructured.SetNestedField(object.Object, hash, "metadata", "annotations", crdHash) // checkDefinition was called
	return crdSource{d.File, object.GetName(), hash, object}, nil
}
