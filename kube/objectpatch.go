package kube

import (
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
	"k8s.io/client-go/dynamic"

	"addon-operator/kube/objectpatch"
)

// How long Delete waits until the object is gone, and how often it looks (K2).
const (
	deleteLimit = 20 * time.Second
	deletePoll  = time.Second
)

// ApplyObjectPatches executes the operations in order. When one of them cannot
// be right (a namespace missing or too much, K7) none is executed. After an
// error the rest is still tried, and all errors are returned together: the
// hook counts as failed and will run again, so hooks must be idempotent (K5).
func (c *Client) ApplyObjectPatches(ctx context.Context, patches []objectpatch.Patch) error {
	var errs []error
	for _, p := range patches {
		// A kind that is missing now may be made by an operation before.
		if _, err := c.target(ctx, p); err != nil && !errors.Is(err, errNoKind) {
			errs = append(errs, fmt.Errorf("%s: %w", p, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	defined := false // an operation before has defined a kind
	for _, p := range patches {
		if err := c.applyObjectPatch(ctx, p, defined); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p, err))
		}
		defined = defined || defines(p)
	}
	return errors.Join(errs...)
}

// target is where an operation goes.
type target struct {
	api  dynamic.ResourceInterface
	kind kind
}

func (c *Client) target(ctx context.Context, p objectpatch.Patch) (target, error) {
	found, err := c.kinds.resolve(ctx, p.APIVersion, p.Kind, false)
	if err != nil {
		return target{}, err
	}
	switch {
	case found.namespaced && p.Namespace == "":
		return target{}, fmt.Errorf("%s lives in namespaces: set the namespace", found.name)
	case !found.namespaced && p.Namespace != "":
		return target{}, fmt.Errorf("%s is cluster-wide: remove the namespace", found.name)
	}
	return target{api: noting(ctx, c.dynamic.Resource(found.resource).Namespace(p.Namespace)), kind: found}, nil
}

func (c *Client) applyObjectPatch(ctx context.Context, p objectpatch.Patch, defined bool) error {
	to, err := c.target(ctx, p)
	if defined && errors.Is(err, errNoKind) {
		to, err = c.targetOfNewKind(ctx, p)
	}
	if err == nil {
		err = c.execute(ctx, to, p)
	}
	missing := apierrors.IsNotFound(err) || errors.Is(err, errNoKind)
	if missing && (p.Deletes() || p.IgnoreMissingObject && !p.Creates()) {
		return nil
	}
	return err
}

// targetOfNewKind waits for a kind that an operation before has defined: the
// API server serves it a moment later.
func (c *Client) targetOfNewKind(ctx context.Context, p objectpatch.Patch) (target, error) {
	for deadline := time.Now().Add(kindRecent); ; {
		if err := sleep(ctx, discoveryInterval); err != nil {
			return target{}, err
		}
		to, err := c.target(ctx, p)
		if !errors.Is(err, errNoKind) || time.Now().After(deadline) {
			return to, err
		}
	}
}

// defines tells whether the operation may bring a new kind.
func defines(p objectpatch.Patch) bool {
	return p.Creates() && strings.EqualFold(p.Kind, "CustomResourceDefinition")
}

func subresources(p objectpatch.Patch) []string {
	if p.Subresource == "" {
		return nil
	}
	return []string{p.Subresource}
}

func (c *Client) execute(ctx context.Context, to target, p objectpatch.Patch) error {
	switch p.Operation {
	case objectpatch.Create:
		return to.create(ctx, p)
	case objectpatch.CreateIfNotExists:
		err := to.create(ctx, p)
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	case objectpatch.CreateOrUpdate:
		return to.createOrUpdate(ctx, p)
	case objectpatch.ServerSideApply:
		options := metav1.ApplyOptions{FieldManager: c.config.UserAgent, Force: true}
		_, err := to.api.Apply(ctx, p.Name, to.object(p), options, subresources(p)...)
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

// create makes the object. Hooks write what a snapshot has shown them: the API
// server refuses its version on a new object, before it says that there is one.
func (to target) create(ctx context.Context, p objectpatch.Patch) error {
	object := to.object(p)
	object.SetResourceVersion("")
	_, err := to.api.Create(ctx, object, metav1.CreateOptions{}, subresources(p)...)
	return err
}

// createOrUpdate replaces an object that exists, whatever its version (X30).
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
		_, err = to.api.Update(ctx, object, metav1.UpdateOptions{}, subresources(p)...)
		return err
	})
}

func (to target) delete(ctx context.Context, p objectpatch.Patch, policy metav1.DeletionPropagation) error {
	return to.api.Delete(ctx, p.Name, metav1.DeleteOptions{PropagationPolicy: &policy}, subresources(p)...)
}

// deleteAndWait deletes with all dependents and waits until the object, not
// another one of its name, is gone.
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
			object = live
		}
		if err := sleep(ctx, pause.Step()); err != nil {
			return fmt.Errorf("wait for its end: %w, finalizers %q", err, object.GetFinalizers())
		}
	}
}

func (to target) patch(ctx context.Context, p objectpatch.Patch, patchType types.PatchType) error {
	_, err := to.api.Patch(ctx, p.Name, patchType, p.Data, metav1.PatchOptions{}, subresources(p)...)
	return err
}

// jqPatch replaces the object by what the filter makes of it, again when
// someone else was faster.
func (to target) jqPatch(ctx context.Context, p objectpatch.Patch) error {
	return retryOnConflict(func() error {
		live, err := to.api.Get(ctx, p.Name, metav1.GetOptions{}, subresources(p)...)
		if err != nil {
			return err
		}
		next, changed, err := objectpatch.Transform(ctx, p.Filter, live.Object)
		if err != nil || !changed {
			return err
		}
		object := &unstructured.Unstructured{Object: next}
		if _, err := meta.Accessor(object); err != nil || object.GetName() != p.Name {
			return errors.New("the result of jqFilter is another object, or none")
		}
		_, err = to.api.Update(ctx, object, metav1.UpdateOptions{}, subresources(p)...)
		return err
	})
}
