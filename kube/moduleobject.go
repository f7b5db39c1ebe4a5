package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// ModuleGroup is the group of objects of kind Module, and the prefix of the annotations on them.
const ModuleGroup = "addon-operator.io"

// Annotations by which people request something of a module (J16). Each new value is a new request.
const (
	RequestedAtAnnotation      = ModuleGroup + "/requestedAt"
	RetryRequestedAtAnnotation = ModuleGroup + "/retryRequestedAt"
)

const (
	moduleManager = "addon-operator" // field manager of the status, and of objects that the operator creates
	// managedByLabel marks objects that the operator has created, and may delete.
	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "addon-operator"
)

func moduleResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: ModuleGroup, Version: "v1alpha1", Resource: "modules"}
}

// ModuleStatus is the status of an object of kind Module (J14). Package actors fills it.
// Its fields are those of deploy/chart/module-crd.yaml, which explains them; what that file lacks
// the API server drops.
type ModuleStatus struct {
	ObservedGeneration          int64              `json:"observedGeneration,omitempty"`
	ObservedConfig              string             `json:"observedConfig,omitempty"`
	Phase                       string             `json:"phase"`
	Enabled                     bool               `json:"enabled"`
	EnabledReason               string             `json:"enabledReason,omitempty"`
	Release                     ModuleRelease      `json:"release,omitzero"`
	Chart                       ModuleChart        `json:"chart,omitzero"`
	LastRun                     ModuleLastRun      `json:"lastRun,omitzero"`
	Objects                     ModuleHealth       `json:"objects,omitzero"`
	LastHandledRequestedAt      string             `json:"lastHandledRequestedAt,omitempty"`
	LastHandledRetryRequestedAt string             `json:"lastHandledRetryRequestedAt,omitempty"`
	Conditions                  []metav1.Condition `json:"conditions,omitempty"`
}

// deploy/chart/module-crd.yaml describes the fields of the parts of ModuleStatus.
type (
	// ModuleRelease is the release of a module.
	ModuleRelease struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
		Revision  int    `json:"revision"`
	}
	// ModuleChart has the versions in Chart.yaml.
	ModuleChart struct {
		Version    string `json:"version,omitempty"`
		AppVersion string `json:"appVersion,omitempty"`
	}
	// ModuleLastRun is the last module run that began.
	ModuleLastRun struct {
		Time   metav1.Time `json:"time"`
		Result string      `json:"result,omitempty"`
	}
	// ModuleHealth counts the objects of the release that are as their specs ask for.
	ModuleHealth struct {
		Summary string `json:"summary"`
	}
)

// String is the status as JSON. Two statuses with equal texts are equal: the writer compares these.
func (s ModuleStatus) String() string {
	data, err := json.Marshal(s)
	if err != nil {
		return "bug: " + err.Error()
	}
	return string(data)
}

// ModuleObject is the part of an object of kind Module that the operator uses.
type ModuleObject struct {
	Name       string
	Version    string // resourceVersion
	Generation int64
	Suspend    bool
	// Ours: the operator has created it.
	Ours bool
	// RequestedAt and RetryRequestedAt are annotations.
	RequestedAt, RetryRequestedAt string
	Status                        ModuleStatus
}

// Newer reports whether the object has changed since the other state of it was read. Versions that
// are no numbers, and so cannot be compared, count as newer.
func (o ModuleObject) Newer(than ModuleObject) bool {
	return o.Version != than.Version && !Older(o.Version, than.Version)
}

// ModuleNews is what has changed of the objects: one of its fields.
type ModuleNews struct {
	// Listed: all that there are were reported.
	Listed bool
	Set    *ModuleObject
	Gone   string
	// Absent: the API server does not serve the kind, or does not let the operator list the
	// objects. Listed follows when it does.
	Absent error
}

// ModuleObjects are the objects of kind Module in a namespace.
type ModuleObjects struct {
	client    *Client
	rest      rest.Interface
	namespace string
}

// The limits of the writes, so that they do not hold up those of the operator.
const (
	moduleQPS     = 50
	moduleBurst   = 50
	moduleTimeout = 10 * time.Second
)

// ModuleObjects returns those of a namespace. It makes no request.
func (c *Client) ModuleObjects(namespace string) (*ModuleObjects, error) {
	limited, err := c.WithLimits(Limits{QPS: moduleQPS, Burst: moduleBurst, Timeout: moduleTimeout})
	if err != nil {
		return nil, err
	}
	return &ModuleObjects{client: c, rest: limited.core.RESTClient(), namespace: namespace}, nil
}

// An API server that has begun a moment ago denies all until it has read its roles.
const (
	deniedFor   = 5 * time.Second
	deniedPause = time.Second
)

// Suspended lists the names of suspended modules, which is never nil; without the kind there are none. Its error is of
// reason Forbidden when the objects may not be listed, and that has lasted.
func (m *ModuleObjects) Suspended(ctx context.Context) (map[string]bool, error) {
	suspended := map[string]bool{}
	began := time.Now()
	list, err := m.list(ctx)
	for apierrors.IsForbidden(err) && time.Since(began) < deniedFor {
		if err := sleep(ctx, deniedPause); err != nil {
			return suspended, err
		}
		list, err = m.list(ctx)
	}
	switch {
	case apierrors.IsNotFound(err):
		return suspended, nil
	case err != nil:
		return suspended, fmt.Errorf("read the objects of kind Module in namespace %s: %w", m.namespace, err)
	}
	for _, document := range list {
		if document.Spec.Suspend {
			suspended[document.Metadata.Name] = true
		}
	}
	return suspended, nil
}

// list reads the objects.
func (m *ModuleObjects) list(ctx context.Context) (all []moduleDocument, err error) {
	var found struct{ Items []moduleDocument }
	result := m.at(m.rest.Get()).Do(ctx)
	if err := result.Error(); err != nil {
		return nil, err
	}
	data, _ := result.Raw()
	err = decodeModule(data, &found)
	return found.Items, err
}

// at has a request go to the objects, or to what is below them. It is no request of the dynamic client, which decodes
// an object into maps first, with all that the operator does not use: a start reads all of them.
func (m *ModuleObjects) at(r *rest.Request, below ...string) *rest.Request {
	of := moduleResource()
	path := append([]string{"apis", of.Group, of.Version, "namespaces", m.namespace, of.Resource}, below...)
	return r.AbsPath(path...).SetHeader("Accept", runtime.ContentTypeJSON)
}

// answer sends a request, and returns the object as it is stored.
func answer(ctx context.Context, r *rest.Request) (ModuleObject, error) {
	result := r.Do(ctx)
	if err := result.Error(); err != nil { // that of Raw lacks the words of the API server
		return ModuleObject{}, err
	}
	data, _ := result.Raw()
	return moduleObject(data)
}

// moduleDocument is what the operator uses of an object.
type moduleDocument struct {
	Metadata struct {
		Name, ResourceVersion string
		Generation            int64
		Labels, Annotations   map[string]string
	}
	Spec   struct{ Suspend bool }
	Status json.RawMessage
}

// decodeModule reads JSON that any client may have written: what has another type counts as absent.
func decodeModule(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil
	}
	return err
}

// moduleObject reads what the operator uses of an object; texts of people are cut.
func moduleObject(data []byte) (o ModuleObject, err error) {
	var d moduleDocument
	err = decodeModule(data, &d)
	_ = json.Unmarshal(d.Status, &o.Status) // one that is not the operator's is replaced by its own
	o.Name, o.Version, o.Generation = d.Metadata.Name, d.Metadata.ResourceVersion, d.Metadata.Generation
	o.Ours, o.Suspend = d.Metadata.Labels[managedByLabel] == managedBy, d.Spec.Suspend
	o.RequestedAt = cutRequest(d.Metadata.Annotations[RequestedAtAnnotation])
	o.RetryRequestedAt = cutRequest(d.Metadata.Annotations[RetryRequestedAtAnnotation])
	return o, err
}

// maxRequest is how many bytes of a request count; the definition of the kind has the same number.
const maxRequest = 250

func cutRequest(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxRequest)], "")
}

// Create creates an object without a status, or returns the one that exists, which another
// client may have created: see Ours.
func (m *ModuleObjects) Create(ctx context.Context, name string, suspend bool) (ModuleObject, error) {
	spec := map[string]any{}
	if suspend {
		spec["suspend"] = true
	}
	data, err := json.Marshal(m.object(name, map[string]any{"spec": spec}, map[string]string{managedByLabel: managedBy}))
	if err != nil {
		return ModuleObject{}, err
	}
	create := m.at(m.rest.Post()).SetHeader("Content-Type", runtime.ContentTypeJSON).Param("fieldManager", moduleManager)
	stored, err := answer(ctx, create.Body(data))
	if apierrors.IsAlreadyExists(err) {
		stored, err = m.get(ctx, name)
	}
	if err != nil {
		return ModuleObject{}, fmt.Errorf("create Module %s/%s: %w", m.namespace, name, err)
	}
	return stored, nil
}

func (m *ModuleObjects) get(ctx context.Context, name string) (ModuleObject, error) {
	return answer(ctx, m.at(m.rest.Get(), name))
}

// Apply writes the status of an object that exists, and returns the object as it is stored. It is
// an apply patch, so fields that status leaves out are removed. The error for an object that is
// gone is of reason NotFound: an apply to a subresource creates none.
func (m *ModuleObjects) Apply(ctx context.Context, name string, status ModuleStatus) (ModuleObject, error) {
	data, err := json.Marshal(m.object(name, map[string]any{"status": status}, nil))
	if err != nil {
		return ModuleObject{}, fmt.Errorf("status of Module %s/%s: %w", m.namespace, name, err)
	}
	apply := m.at(m.rest.Patch(types.ApplyPatchType), name, "status").Param("fieldManager", moduleManager).Param("force", "true")
	stored, err := answer(ctx, apply.Body(data))
	if err != nil {
		return ModuleObject{}, fmt.Errorf("write the status of Module %s/%s: %w", m.namespace, name, err)
	}
	return stored, nil
}

// Delete deletes an object in the state that was read. That there is none is no error; one that a
// person has changed since, or made again, stays, and the error is of reason Conflict.
func (m *ModuleObjects) Delete(ctx context.Context, read ModuleObject) error {
	unchanged := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &read.Version}}
	if err := m.at(m.rest.Delete(), read.Name).Body(unchanged).Do(ctx).Error(); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete Module %s/%s: %w", m.namespace, read.Name, err)
	}
	return nil
}

func (m *ModuleObjects) object(name string, content map[string]any, labels map[string]string) map[string]any {
	content["apiVersion"], content["kind"] = moduleResource().GroupVersion().String(), "Module"
	content["metadata"] = metav1.ObjectMeta{Name: name, Namespace: m.namespace, Labels: labels}
	return content
}

// maxDenials is how many denials in a row say that the objects may not be watched: an API server that has just started
// denies all for a moment.
const maxDenials = 3

// Watch calls notify from one goroutine with what changes of the objects, until ctx ends. It
// returns at once. Without the kind, or the right to list it, it waits until there is one.
func (m *ModuleObjects) Watch(ctx context.Context, notify func(ModuleNews)) {
	of := kind{resource: moduleResource(), name: "Module", namespaced: true, watchable: true}
	denials := 0
	spec := Spec{
		APIVersion: of.apiVersion(), Kind: of.name, Namespaces: []string{m.namespace}, known: of, loud: true, KeepObjects: true,
		Failed: func(err error) {
			// A client without the right to use a kind is refused even when there is no such kind.
			if apierrors.IsForbidden(err) {
				if denials++; denials < maxDenials {
					return
				}
			}
			switch {
			case errors.Is(err, errNoKind):
				notify(ModuleNews{Absent: apierrors.NewNotFound(of.resource.GroupResource(), "")})
			case apierrors.IsForbidden(err):
				notify(ModuleNews{Absent: err})
			}
		},
	}
	_, _ = m.client.watcher.Watch(ctx, spec, func(change Change) { // nothing is wrong with the spec
		o, err := moduleObject(change.Object.Object)
		if change.Type == Deleted || err != nil {
			notify(ModuleNews{Gone: change.Object.Name})
			return
		}
		notify(ModuleNews{Set: &o})
	}, func() {
		denials = 0
		notify(ModuleNews{Listed: true})
	})
}

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
	merge := m.at(m.rest.Patch(types.MergePatchType), name).Param("fieldManager", requestManager)
	stored, err := answer(ctx, merge.Body(data))
	if apierrors.IsNotFound(err) { // it, all of them, or their kind
		err = fmt.Errorf("%w; is that the namespace of the operator, and is deploy/chart/module-crd.yaml applied?", err)
	}
	if err != nil {
		return ModuleObject{}, fmt.Errorf("request at Module %s/%s: %w", m.namespace, name, err)
	}
	return stored, nil
}

// handledPoll is how often a request is looked at until it is handled.
const handledPoll = 250 * time.Millisecond

// AwaitHandled waits until the status shows that the operator has taken the request: it repeats the
// value at of each annotation, and has the generation of the spec that Request returned in asked.
// It has no limit of its own: an operator that does not run never handles it, and ctx must end.
func (m *ModuleObjects) AwaitHandled(ctx context.Context, asked ModuleObject, at string, r ModuleRequest) error {
	return wait.PollUntilContextCancel(ctx, handledPoll, true, func(ctx context.Context) (bool, error) {
		stored, err := m.get(ctx, asked.Name)
		if err != nil {
			return false, fmt.Errorf("read Module %s/%s: %w", m.namespace, asked.Name, err)
		}
		status := stored.Status
		return (!r.Run || status.LastHandledRequestedAt == at) && (!r.Retry || status.LastHandledRetryRequestedAt == at) &&
			(r.Suspend == nil || status.ObservedGeneration >= asked.Generation), nil
	})
}
