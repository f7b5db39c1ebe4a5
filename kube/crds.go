package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// crdHash is the annotation with the checksum of what was applied: while it is
	// that of the file, one request for metadata is all there is to do.
	crdHash = "addon-operator/crd-checksum"
	// crdManager is the field manager of what comes from a file. It distinguishes these fields from
	// those that others have set, which stay (M3).
	crdManager = "addon-operator"

	crdWidth = 8                     // definitions at the same time
	crdLimit = 20 * time.Second      // until the kinds of new definitions must be served
	crdPoll  = 50 * time.Millisecond // between two discoveries
)

// CRDOptions select the files, and the labels that are added to their definitions (chapter M).
type CRDOptions struct {
	SkipPrefixes []string          // of base names that are no definitions (M1)
	Labels       map[string]string // put on every definition that does not set them itself (M3)
}

func crdResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
}

func crdKind() kind { return kind{resource: crdResource(), name: "CustomResourceDefinition"} }

// EnsureCRDs installs CustomResourceDefinitions that CheckCRDs has accepted, and waits until their kinds are served
// (M1–M3, M6); it returns those that it wrote or had to wait for, with their files. Of two with one name the last one
// counts. Nothing is ever deleted (M5). A definition
// whose file has not changed since costs one request for its metadata. Errors name the file; the
// definitions of other files are installed. The next call continues where this one ended (M4).
func (c *Client) EnsureCRDs(ctx context.Context, o CRDOptions, found []CRD) (written map[string]string, err error) {
	// The definitions are independent of each other, so the failure of one must
	// not cancel the others (M4): the functions of the group return nil, and each has its own place in
	// changed and errs. Discovery lists all kinds at once, so it comes once, after the last of them.
	all, err := c.withoutDuplicates(o, found)
	if err != nil {
		return nil, err
	}
	changed := make([]bool, len(all))
	errs := make([]error, len(all))
	var group errgroup.Group
	group.SetLimit(crdWidth)
	for i, d := range all {
		group.Go(func() error {
			if changed[i], errs[i] = c.ensureCRD(ctx, d); errs[i] != nil {
				errs[i] = d.failed(errs[i])
			}
			return nil
		})
	}
	_ = group.Wait()
	var fresh []crdSource
	written = map[string]string{}
	for i, d := range all {
		if changed[i] && errs[i] == nil {
			written[d.name] = d.file
			fresh = append(fresh, d)
		}
	}
	if len(fresh) > 0 {
		left, err := c.awaitServed(ctx, fresh)
		for _, d := range left {
			delete(written, d.name)
		}
		errs = append(errs, err)
		c.log.Info("CRDs are installed", "crds", slices.Sorted(maps.Keys(written)))
	}
	return written, errors.Join(errs...)
}

// Unavailable reports that a request has failed because the API server did not answer it, or could
// not for a reason of its own: what was asked may be right.
func Unavailable(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return slices.Contains([]int32{http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout}, status.Status().Code)
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF)
}

// withoutDuplicates keeps the last of several definitions with the same name, and logs the others:
// modules that ship the same CRD do not stop the run.
func (c *Client) withoutDuplicates(o CRDOptions, found []CRD) (kept []crdSource, err error) {
	for _, f := range found {
		d, err := f.complete(o.Labels)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(kept, func(k crdSource) bool { return k.name == d.name })
		if i < 0 {
			kept = append(kept, d)
			continue
		}
		if kept[i].hash != d.hash {
			c.log.Warn("two files define the same CRD differently; the second is used", "crd", d.name, "first", kept[i].file, "second", d.file)
		}
		kept[i] = d
	}
	return kept, nil
}

// ensureCRD applies one definition unless the cluster has it, and reports whether its kinds are to be awaited.
// It looks at the metadata first, because definitions are large: hundreds of kilobytes for each module at each
// reload would be read only to find that nothing is to be done.
func (c *Client) ensureCRD(ctx context.Context, d crdSource) (changed bool, err error) {
	api, next := c.dynamic.Resource(crdResource()), d.object.DeepCopy()
	known, err := c.metadata.Resource(crdResource()).Get(ctx, d.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return false, err
	case known.DeletionTimestamp != nil:
		return false, errors.New("it is being deleted; it is created again when it is gone")
	case known.Annotations[crdHash] == d.hash: // else its writer was killed, or gave up, before it was in use (M2)
		return !c.isServed(ctx, d), nil
	default:
		// The file has changed, or another writer has taken the hash away: what is in the cluster
		// decides what of it must stay.
		live, err := api.Get(ctx, d.name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		keepConversion(next, live)
	}
	// Force takes over fields of the file that other managers hold; fields that the file does not have stay theirs (M3).
	_, err = api.Apply(ctx, d.name, next, metav1.ApplyOptions{FieldManager: crdManager, Force: true})
	if apierrors.IsInvalid(err) && strings.Contains(err.Error(), "storedVersions") {
		err = fmt.Errorf("%w; until then keep the version in the file, with served: false (M3)", plain(err))
	}
	return true, err
}

// isServed reports whether the kinds of a definition are served, according to the cached discovery; that
// costs no request while they are. The plural is compared because another definition may serve the
// same kind.
func (c *Client) isServed(ctx context.Context, d crdSource) bool {
	group, _, _ := unstructured.NestedString(d.object.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(d.object.Object, "spec", "names", "kind")
	plural, _, _ := unstructured.NestedString(d.object.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(d.object.Object, "spec", "versions")
	return !slices.ContainsFunc(versions, func(v any) bool {
		version, _ := v.(map[string]any)
		name, _ := version["name"].(string)
		if version["served"] != true {
			return false
		}
		found, err := c.kinds.resolve(ctx, group+"/"+name, kind, false)
		return err != nil || found.resource.Resource != plural
	})
}

// keepConversion keeps a conversion whose strategy others set at run time (M3): the apply would mix it with that of
// the file. Certificates that they put into that of the file stay by themselves.
func keepConversion(next, live *unstructured.Unstructured) {
	current, _, _ := unstructured.NestedMap(live.Object, "spec", "conversion")
	theirs := slices.ContainsFunc(live.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		var fields map[string]any
		if e.Manager != crdManager && e.FieldsV1 != nil {
			_ = json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields)
		}
		_, owned, _ := unstructured.NestedMap(fields, "f:spec", "f:conversion", "f:strategy")
		return owned
	})
	if theirs && current["strategy"] == "Webhook" {
		_ = unstructured.SetNestedMap(next.Object, current, "spec", "conversion")
	}
}

// awaitServed waits until discovery lists the kinds, which it does a moment after the API server has taken the
// definitions into use; the answer then serves the watches, too (M6). It returns those that are not served. Each
// look is a discovery of its own, because the one that is kept lacks the kinds. One that was listed once does not
// need to be listed with the others: of several API servers each has them at another time.
func (c *Client) awaitServed(ctx context.Context, fresh []crdSource) (left []crdSource, err error) {
	left = fresh
	err = wait.PollUntilContextTimeout(ctx, crdPoll, crdLimit, true, func(ctx context.Context) (bool, error) {
		if err := c.kinds.refresh(ctx); err != nil {
			return false, err
		}
		left = slices.DeleteFunc(left, func(d crdSource) bool { return c.isServed(ctx, d) })
		return len(left) == 0, nil
	})
	if !wait.Interrupted(err) || ctx.Err() != nil {
		return left, err
	}
	err = fmt.Errorf("its kinds are not served after %s", crdLimit)
	if live, errLive := c.dynamic.Resource(crdResource()).Get(ctx, left[0].name, metav1.GetOptions{}); errLive == nil {
		conditions, _, _ := unstructured.NestedSlice(live.Object, "status", "conditions")
		for _, entry := range conditions {
			if condition, _ := entry.(map[string]any); condition["status"] == "False" {
				err = fmt.Errorf("%w: %v", err, condition["message"])
			}
		}
	}
	return left, left[0].failed(err)
}

// crdSource is a CRD without what only the API server may set. Nothing changes it after complete: several goroutines
// read the object.
type crdSource struct {
	file   string
	name   string
	hash   string // of all that is applied, labels of the operator included, but for the hash itself
	object *unstructured.Unstructured
}

// failed names the definition that an error is about.
func (d crdSource) failed(err error) error {
	return fmt.Errorf("CustomResourceDefinition %s of %s: %w", d.name, d.file, plain(err))
}

// CRD is a CustomResourceDefinition of a file.
type CRD struct {
	File   string // as errors and logs name it
	Object *unstructured.Unstructured
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
