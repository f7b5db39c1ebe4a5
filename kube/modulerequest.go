package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

// ModuleRequest is what a person requests by an object of kind Module (J16).
type ModuleRequest struct {
	Run, Retry bool
	Suspend    *bool // nil: as it is
}

// requestManager is the field manager of what commands write. It is not that of the status, so that
// managedFields show which changes a person has requested.
const requestManager = "addon-operator-cli"

// Request writes a request and returns the object as it is stored; at is the value of the
// annotations, and must differ from that of earlier requests: an equal one is no request. It is a
// merge patch, so it cannot conflict with the operator, which writes the status meanwhile.
func (m *ModuleObjects) Request(ctx context.Context, name, at string, r ModuleRequest) (ModuleObject, error) {
	annotations, patch := map[string]any{}, map[string]any{}
	if r.Run {
		annotations[RequestedAtAnnotation] = at
	}
	if r.Retry {
		annotations[RetryRequestedAtAnnotation] = at
	}
	if len(annotations) > 0 {
		patch["metadata"] = map[string]any{"annotations": annotations}
	}
	if r.Suspend != nil {
		patch["spec"] = map[string]any{"suspend": *r.Suspend}
	}
	data, err := json.Marshal(patch)
	if err != nil {
		return ModuleObject{}, err
	}
	stored, err := m.api.Patch(ctx, name, types.MergePatchType, data, metav1.PatchOptions{FieldManager: requestManager})
	if apierrors.IsNotFound(err) { // it, all of them, or their kind
		err = fmt.Errorf("%w; is that the namespace of the operator, and is deploy/chart/module-crd.yaml applied?", err)
	}
	if err != nil {
		return ModuleObject{}, fmt.Errorf("request at Module %s/%s: %w", m.namespace, name, err)
	}
	return moduleObject(stored), nil
}

// handledPoll is how often a request is looked at until it is handled.
const handledPoll = 250 * time.Millisecond

// AwaitHandled waits until the status shows that the operator has taken the request: it repeats the
// value at of each annotation, and has the generation of the spec that Request returned in asked.
// It has no limit of its own: an operator that does not run never handles it, and ctx must end.
func (m *ModuleObjects) AwaitHandled(ctx context.Context, asked ModuleObject, at string, r ModuleRequest) error {
	return wait.PollUntilContextCancel(ctx, handledPoll, true, func(ctx context.Context) (bool, error) {
		stored, err := m.api.Get(ctx, asked.Name, metav1.GetOptions{})
		if err != nil {
			return false, fmt.Errorf("read Module %s/%s: %w", m.namespace, asked.Name, err)
		}
		status := moduleObject(stored).Status
		return (!r.Run || status.LastHandledRequestedAt == at) && (!r.Retry || status.LastHandledRetryRequestedAt == at) &&
			(r.Suspend == nil || status.ObservedGeneration >= asked.Generation), nil
	})
}
