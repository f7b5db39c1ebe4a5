package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/pager"
)

const (
	// crdSettle is how long API servers may continue to store objects in the version that was the
	// stored one before: replicas of an API server allow each other this time before a new
	// definition is in use.
	crdSettle = 5 * time.Second

	rewriteMost    = 50_000           // objects of one kind (M3)
	rewriteWidth   = 8                // objects at the same time
	rewriteQPS     = 500              // requests per second, apart from those of everything else
	rewriteTimeout = 30 * time.Second // of one request
	rewriteTries   = 5                // of one object, in 4 seconds
	rewriteLog     = 10 * time.Second // between two messages
)

// leaveVersions prepares a definition for a file that drops versions in which objects may be
// stored. Once a version is out of the definition, such objects can no longer be read or deleted.
// So it writes all objects again, which stores them in the version that the file stores, and then
// takes the old versions out of status.storedVersions (M3). Until then the definition keeps them,
// and what converts objects now.
//
// Objects are not written again in a version that ranks below a dropped one, as in a rollback: they
// would lose the fields that only the later version has.
func (c crdInstaller) leaveVersions(ctx context.Context, d crdSource, next, live *unstructured.Unstructured) error {
	stored, _, _ := unstructured.NestedStringSlice(live.Object, "status", "storedVersions")
	dropped := slices.DeleteFunc(slices.Clone(stored), func(v string) bool { return versionOf(next, v) != nil })
	storage := storedIn(next)
	if len(dropped) == 0 || storage == "" || resourceOf(next).Empty() {
		return nil // the API server reports other mistakes
	}
	if err := c.neverBack(ctx, next, live, dropped); err != nil {
		return err
	}
	// First, the cluster stores in the version of the file, and still reads the old ones.
	if storedIn(live) != storage {
		between, err := withVersions(next, live, dropped)
		if err != nil {
			return err
		}
		if err := c.apply(ctx, d, between); err != nil {
			return fmt.Errorf("store objects in version %s: %w", storage, err)
		}
		if live, err = c.dynamic.Resource(crdResource()).Get(ctx, d.name, metav1.GetOptions{}); err != nil {
			return err
		}
	}
	// Then nothing new is stored in an old version, and all that was is written again.
	if err := c.rewrite(ctx, resourceOf(next)); err != nil {
		return fmt.Errorf("objects may be stored in %s, which the file no longer has, and cannot be rewritten in version %s: %w; "+
			"fix that (the operator must be allowed to list and patch %s), or keep the version in the file, with served: false",
			strings.Join(dropped, ", "), storage, plain(err), d.name)
	}
	// Last, the status is updated. A crash before this repeats all of it: the hash is not written
	// yet.
	return c.forget(ctx, live, dropped)
}

// neverBack refuses to drop versions that rank above the one that the file stores, while there are
// objects.
func (c crdInstaller) neverBack(ctx context.Context, next, live *unstructured.Unstructured, dropped []string) error {
	storage, at := storedIn(next), resourceOf(live)
	later := slices.DeleteFunc(slices.Clone(dropped), func(v string) bool { return version.CompareKubeAwareVersionStrings(v, storage) < 0 })
	if len(later) == 0 {
		return nil
	}
	if !at.Empty() { // a definition that serves nothing shows no objects: they may exist
		objects, err := c.count(ctx, at)
		if err != nil {
			return fmt.Errorf("list %s, which may be stored in %s: %w", at.GroupResource(), strings.Join(later, ", "), plain(err))
		}
		if objects == 0 {
			return nil
		}
	}
	return fmt.Errorf("the file no longer has version %s, in which objects may be stored, and stores the earlier version %s, in which they would lose "+
		"what only the later one has; keep %[1]s in the file, as in the cluster, or write the objects in %[2]s yourself and then remove %[1]s from "+
		"status.storedVersions of %[3]s", strings.Join(later, ", "), storage, live.GetName())
}

// count returns how many objects of a kind there are. An API server that does not report how many
// remain counts as one that has no more; namesOf then finds them. count waits for a version that was
// added to a definition: the definition is established already, and the version is served a moment
// later.
func (c crdInstaller) count(ctx context.Context, gvr schema.GroupVersionResource) (int64, error) {
	var list *metav1.PartialObjectMetadataList
	err := wait.PollUntilContextTimeout(ctx, crdPoll, crdLimit, true, func(ctx context.Context) (_ bool, err error) {
		if list, err = c.metadata.Resource(gvr).List(ctx, metav1.ListOptions{Limit: 1}); apierrors.IsNotFound(err) {
			return false, nil
		}
		return true, err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return 0, fmt.Errorf("it is not served after %s", crdLimit)
	}
	if err != nil {
		return 0, err
	}
	objects := int64(len(list.Items))
	if more := list.GetRemainingItemCount(); more != nil {
		objects += *more
	}
	return objects, nil
}

// rewrite writes all objects of a kind as they are, which the API server then stores in the stored
// version. It has a client of its own, so that thousands of writes do not use up the rate of
// everything else. An object that fails is tried again here: the next call would begin with the
// first object.
func (c crdInstaller) rewrite(ctx context.Context, gvr schema.GroupVersionResource) error {
	switch objects, err := c.count(ctx, gvr); {
	case err != nil || objects == 0:
		return err
	case objects > rewriteMost:
		return tooMany(objects)
	}
	if err := sleep(ctx, crdSettle); err != nil {
		return err
	}
	limited, err := c.limited(Limits{QPS: rewriteQPS, Burst: rewriteQPS, Timeout: rewriteTimeout})
	if err != nil {
		return err
	}
	resource := limited.metadata.Resource(gvr)
	names, err := namesOf(ctx, resource)
	if err != nil {
		return err
	}
	var done atomic.Int64
	log := c.log.With("resource", gvr.GroupResource().String(), "version", gvr.Version, "objects", len(names))
	progress := rate.Sometimes{Interval: rewriteLog}
	group, running := errgroup.WithContext(ctx)
	group.SetLimit(rewriteWidth)
	for _, name := range names {
		group.Go(func() error {
			progress.Do(func() { log.Info("objects are being stored in another version", "done", done.Load()) })
			if err := writeAgain(running, resource, name); err != nil {
				return fmt.Errorf("%s: %w", strings.TrimPrefix(name.String(), "/"), err)
			}
			done.Add(1)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("%d of %d objects are rewritten, failed on %w", done.Load(), len(names), err)
	}
	log.Info("objects are stored in another version")
	return nil
}

// namesOf lists all objects of a kind before one of them is written: the token of a paged list
// expires after some minutes.
func namesOf(ctx context.Context, resource metadata.Getter) (names []types.NamespacedName, err error) {
	pages := pager.New(func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return resource.List(ctx, o) })
	err = pages.EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
		if len(names) == rewriteMost {
			return tooMany(rewriteMost + 1)
		}
		object, err := meta.Accessor(o)
		if err == nil {
			names = append(names, types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()})
		}
		return err
	})
	return names, err
}

func tooMany(objects int64) error {
	return fmt.Errorf("there are %d objects, more than the %d that the operator rewrites; rewrite them with a storage version migration "+
		"(https://kubernetes.io/docs/tasks/manage-kubernetes-objects/storage-version-migration/), and remove the version from status.storedVersions", objects, rewriteMost)
}

// writeAgain writes one object as it is, by an empty patch, so that no other writer is overwritten.
// An object that is gone needs no more.
func writeAgain(ctx context.Context, resource metadata.Getter, name types.NamespacedName) error {
	var in metadata.ResourceInterface = resource
	if name.Namespace != "" {
		in = resource.Namespace(name.Namespace)
	}
	backoff, last := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 3, Jitter: 0.2, Steps: rewriteTries}, error(nil)
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		_, last = in.Patch(ctx, name.Name, types.MergePatchType, []byte("{}"), metav1.PatchOptions{FieldManager: crdManager})
		switch {
		case last == nil, apierrors.IsNotFound(last):
			return true, nil
		case apierrors.IsConflict(last), apierrors.IsInternalError(last), apierrors.IsServerTimeout(last), Unavailable(last):
			return false, nil // another writer, a webhook, or the API server itself
		}
		return false, last
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		return last
	}
	return err
}

// forget takes versions in which nothing is stored out of the status: the API server would refuse
// the file otherwise. The resourceVersion makes it fail if the definition has changed since live
// was read: objects may be stored in an old version again.
func (c crdInstaller) forget(ctx context.Context, live *unstructured.Unstructured, dropped []string) error {
	stored, _, _ := unstructured.NestedStringSlice(live.Object, "status", "storedVersions")
	kept := slices.DeleteFunc(stored, func(v string) bool { return slices.Contains(dropped, v) })
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": live.GetResourceVersion()},
		"status":   map[string]any{"storedVersions": kept},
	})
	if err != nil {
		return err
	}
	_, err = c.dynamic.Resource(crdResource()).Patch(ctx, live.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: crdManager}, "status")
	if err != nil {
		return fmt.Errorf("reduce status.storedVersions to %v: %w", kept, err)
	}
	return nil
}

// withVersions is a definition that keeps some versions of the one in the cluster, and the webhook
// that converts them. Without the webhook the API server would only rename the version, and drop
// the fields that the other one does not have. It lacks the annotation with the hash, so that it
// does not count as installed.
func withVersions(next, live *unstructured.Unstructured, names []string) (*unstructured.Unstructured, error) {
	between := next.DeepCopy()
	unstructured.RemoveNestedField(between.Object, "metadata", "annotations", crdHash)
	versions, _, err := unstructured.NestedSlice(between.Object, "spec", "versions")
	for _, name := range names {
		kept := versionOf(live, name)
		if kept == nil {
			return nil, errors.Join(err, fmt.Errorf("objects may be stored in version %s, which the definition in the cluster does not have", name))
		}
		kept["storage"] = false
		versions = append(versions, kept)
	}
	if conversion, _, _ := unstructured.NestedMap(live.Object, "spec", "conversion"); conversion["strategy"] == "Webhook" {
		err = errors.Join(err, unstructured.SetNestedMap(between.Object, conversion, "spec", "conversion"))
	}
	return between, errors.Join(err, unstructured.SetNestedSlice(between.Object, versions, "spec", "versions"))
}

// versionOf is a copy of a version of a definition; nil when there is none.
func versionOf(crd *unstructured.Unstructured, name string) map[string]any {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		if fields, _ := v.(map[string]any); fields["name"] == name {
			return fields
		}
	}
	return nil
}

// resourceOf is what a definition serves, in the stored version if that is served; empty when it
// serves nothing.
func resourceOf(crd *unstructured.Unstructured) schema.GroupVersionResource {
	served := servedKinds(crd)
	if len(served) == 0 {
		return schema.GroupVersionResource{}
	}
	gv := schema.FromAPIVersionAndKind(served[0].apiVersion, served[0].name).GroupVersion()
	if storage := storedIn(crd); slices.ContainsFunc(served, func(s servedKind) bool { return s.apiVersion == gv.Group+"/"+storage }) {
		gv.Version = storage
	}
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	return gv.WithResource(plural)
}

// storedIn is the version in which objects are stored from now on.
func storedIn(crd *unstructured.Unstructured) string {
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		if fields, _ := v.(map[string]any); fields["storage"] == true {
			name, _ := fields["name"].(string)
			return name
		}
	}
	return ""
}
