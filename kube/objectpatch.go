package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"

	"addon-operator/kube/objectpatch"
)

// How long Delete waits until the object is gone, and how often it looks (K2).
const (
	deleteLimit = 20 * time.Second
	deletePoll  = time.Second
)

// CheckObjectPatches returns what cannot be right with operations, without writing: a kind that the
// API server does not serve, a namespace that is missing or must not be there (K7, D26). All errors
// are returned together. What depends on the objects, or on permissions, fails when they are
// executed.
func (c *Client) CheckObjectPatches(ctx context.Context, patches []objectpatch.Patch) error {
	var errs []error
	defined := false // an earlier operation may bring a kind: then no kind is refused as unknown
	for _, p := range patches {
		_, err := c.target(ctx, p)
		if err != nil && !needless(p, err) && !(defined && errors.Is(err, errNoKind)) {
			errs = append(errs, fmt.Errorf("%s: %w", p, err))
		}
		defined = defined || defines(p)
	}
	return joined(errs)
}

func defines(p objectpatch.Patch) bool {
	return p.Creates() && strings.EqualFold(p.Kind, "CustomResourceDefinition")
}

// joined writes out the first hundred errors: there can be tens of thousands, often with one reason such as a missing
// permission.
func joined(errs []error) error {
	const listed = 100
	if more := len(errs) - listed; more > 0 {
		errs = append(errs[:listed:listed], fmt.Errorf("and %d more operations failed", more))
	}
	return errors.Join(errs...)
}

// ApplyObjectPatches executes operations in order. After an error the rest is still tried, and all
// errors are returned together (K5). left are the operations to repeat: those that failed, in their
// order, and when ctx ends those that were not tried.
func (c *Client) ApplyObjectPatches(ctx context.Context, patches []objectpatch.Patch) (left []objectpatch.Patch, err error) {
	var errs []error
	defined := false
	for i, p := range patches {
		if err := c.applyObjectPatch(WithAbout(ctx, "patch", p.String()), p, defined); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p, err))
			p.Unanswered = p.Unanswered || !answered(err) // p is a copy; once true it stays so over all repetitions
			left = append(left, p)
		}
		if ctx.Err() != nil && i+1 < len(patches) { // each other request would only fail, too
			return append(left, patches[i+1:]...), errors.Join(joined(errs), ctx.Err())
		}
		defined = defined || defines(p)
	}
	return left, joined(errs)
}

// answered reports whether the API server has refused a request. Without an answer it may have done
// it, so a repetition must accept its effect.
func answered(err error) bool {
	return apierrors.ReasonForError(err) != metav1.StatusReasonUnknown && !apierrors.IsTimeout(err) && !apierrors.IsInternalError(err)
}

// target is where an operation goes.
type target struct {
	api  dynamic.ResourceInterface
	kind kind
	sub  []string // the subresource, if any
}

// target finds the kind of an operation, and checks the namespace against it. It makes a request
// only for a kind that the last discovery did not list. An unknown kind is errNoKind.
func (c *Client) target(ctx context.Context, p objectpatch.Patch) (target, error) {
	found, err := c.kinds.resolve(ctx, p.APIVersion, p.Kind, false)
	if errors.Is(err, errNoKind) && !p.Creates() {
		err = fmt.Errorf("%w; check the kind, or set ignoreMissingObject if it may be missing", err)
	}
	if err != nil {
		return target{}, err
	}
	switch {
	case found.namespaced && p.Namespace == "":
		return target{}, fmt.Errorf("%s is namespaced: set the namespace", found.name)
	case !found.namespaced && p.Namespace != "":
		return target{}, fmt.Errorf("%s is cluster-wide: remove the namespace", found.name)
	}
	to := target{api: c.dynamic.Resource(found.resource).Namespace(p.Namespace), kind: found}
	if p.Subresource != "" {
		to.sub = []string{p.Subresource}
	}
	return to, nil
}

// applyObjectPatch executes one operation. A missing object, or kind, is success where the result
// is the one that the hook wants (K3): a delete, or a patch with ignoreMissingObject. A create that
// finds nothing lacks its namespace, and fails.
func (c *Client) applyObjectPatch(ctx context.Context, p objectpatch.Patch, defined bool) error {
	to, err := c.target(ctx, p)
	if defined && errors.Is(err, errNoKind) { // the API server serves it a moment later
		_ = wait.PollUntilContextTimeout(ctx, discoveryInterval, kindsSettle, false, func(ctx context.Context) (bool, error) {
			to, err = c.target(ctx, p)
			return !errors.Is(err, errNoKind), nil
		})
		err = cmp.Or(context.Cause(ctx), err)
	}
	if err == nil {
		err = c.execute(ctx, to, p)
	}
	if apierrors.IsNotFound(err) && (p.Deletes() || p.IgnoreMissingObject && !p.Creates()) || needless(p, err) {
		return nil
	}
	return err
}

// needless reports that there is nothing to do because no object of the kind can exist, and the hook
// expects that its kind may be missing (K3).
func needless(p objectpatch.Patch, err error) bool {
	return errors.Is(err, errNoKind) && p.IgnoreMissingObject && !p.Creates()
}

// execute sends the requests of one operation. Only CreateOrUpdate and JQPatch read before they
// write, and repeat both after a conflict; of a Delete, the read is for the wait.
func (c *Client) execute(ctx context.Context, to target, p objectpatch.Patch) error {
	switch p.Operation {
	case objectpatch.Create, objectpatch.CreateIfNotExists:
		err := to.create(ctx, p)
		if apierrors.IsAlreadyExists(err) && (p.Operation == objectpatch.CreateIfNotExists || p.Unanswered) {
			return nil // perhaps the request without an answer has done it
		}
		return err
	case objectpatch.CreateOrUpdate:
		return to.createOrUpdate(ctx, p)
	case objectpatch.ServerSideApply:
		options := metav1.ApplyOptions{FieldManager: c.config.UserAgent, Force: true}
		_, err := to.api.Apply(ctx, p.Name, to.object(p), options, to.sub...)
		return err
	case objectpatch.Delete:
		return to.deleteAndWait(ctx, p)
	case objectpatch.DeleteInBackground:
		return to.delete(ctx, p, metav1.DeletePropagationBackground)
	case objectpatch.DeleteNonCascading:
		return to.delete(ctx, p, metav1.DeletePropagationOrphan)
	case objectpatch.MergePatch:
		return to.patch(ctx, p, types.MergePatchType)
	case objectpatch.JSONPatch:
		return to.patch(ctx, p, types.JSONPatchType)
	case objectpatch.JQPatch:
		return to.jqPatch(ctx, p)
	default:
		return fmt.Errorf("unknown operation %q", p.Operation)
	}
}

// object is the operation's object with the version and kind as the API server
// spells them. The library writes into what it is given, hence the copy.
func (to target) object(p objectpatch.Patch) *unstructured.Unstructured {
	content := maps.Clone(p.Object)
	content["apiVersion"], content["kind"] = to.kind.apiVersion(), to.kind.name
	return (&unstructured.Unstructured{Object: content}).DeepCopy()
}

// create creates the object. Hooks write what a snapshot has shown them, and the API server refuses
// a resourceVersion on a new object before it reports that the object exists; so it is removed.
func (to target) create(ctx context.Context, p objectpatch.Patch) error {
	object := to.object(p)
	object.SetResourceVersion("")
	_, err := to.api.Create(ctx, object, metav1.CreateOptions{}, to.sub...)
	return err
}

// createOrUpdate replaces an object that exists, whatever its version (X30). The version that the
// hook has written does not count: the one of the object in the cluster takes its place. A
// subresource cannot be created, so its object must exist.
func (to target) createOrUpdate(ctx context.Context, p objectpatch.Patch) error {
	if p.Subresource == "" {
		if err := to.create(ctx, p); !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return retryOnConflict(func() error {
		live, err := to.api.Get(ctx, p.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		object := to.object(p)
		object.SetResourceVersion(live.GetResourceVersion())
		_, err = to.api.Update(ctx, object, metav1.UpdateOptions{}, to.sub...)
		return err
	})
}

func (to target) delete(ctx context.Context, p objectpatch.Patch, policy metav1.DeletionPropagation) error {
	return to.api.Delete(ctx, p.Name, metav1.DeleteOptions{PropagationPolicy: &policy}, to.sub...)
}

// deleteAndWait deletes with all dependents, and waits until the object is gone. Another object of
// the same name (UID) counts as gone.
func (to target) deleteAndWait(ctx context.Context, p objectpatch.Patch) error {
	object, err := to.api.Get(ctx, p.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := to.delete(ctx, p, metav1.DeletePropagationForeground); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, deleteLimit, fmt.Errorf("it is still there after %s", deleteLimit))
	defer cancel()
	for pause := newPause(deletePoll); ; {
		live, err := to.api.Get(ctx, p.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err), err == nil && live.GetUID() != object.GetUID():
			return nil
		case err != nil && ctx.Err() == nil:
			return err
		case err == nil:
			object = live // for the finalizers in the error
		}
		if err := sleep(ctx, pause.Step()); err != nil {
			return fmt.Errorf("wait for its end: %w, finalizers %q", err, object.GetFinalizers())
		}
	}
}

func (to target) patch(ctx context.Context, p objectpatch.Patch, patchType types.PatchType) error {
	_, err := to.api.Patch(ctx, p.Name, patchType, p.Data, metav1.PatchOptions{}, to.sub...)
	return err
}

// jqPatch replaces the object by what the filter makes of it, and begins again if another client
// was faster: the result has the version of what was read. A result that equals the object is no change for the API
// server.
func (to target) jqPatch(ctx context.Context, p objectpatch.Patch) error {
	return retryOnConflict(func() error {
		live, err := to.api.Get(ctx, p.Name, metav1.GetOptions{}, to.sub...)
		if err != nil {
			return err
		}
		next, err := objectpatch.Transform(ctx, p.Filter, live.Object)
		if err != nil {
			return fmt.Errorf("jqFilter: %w", err)
		}
		object := &unstructured.Unstructured{Object: next}
		if _, err := meta.Accessor(object); err != nil || object.GetName() != p.Name {
			return errors.New("the result of jqFilter is another object, or none")
		}
		_, err = to.api.Update(ctx, object, metav1.UpdateOptions{}, to.sub...)
		return err
	})
}
