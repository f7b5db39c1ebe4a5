package kube

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// Written is an object as a write has left it.
type Written struct {
	Kind, Namespace, Name string // as the API server spells them
	Version               string // resourceVersion
}

type writtenKey struct{}

// ReportWritten returns a context whose object patches report each object that they have written.
// An event of the same resourceVersion is the effect of that write and of no other (K10). Deletes
// have none and are not reported. The goroutine that applies the patches calls report.
func ReportWritten(ctx context.Context, report func(Written)) context.Context {
	return context.WithValue(ctx, writtenKey{}, report)
}

// noting wraps an API so that it reports what it writes, if the context has a function for that.
func noting(ctx context.Context, api dynamic.ResourceInterface) dynamic.ResourceInterface {
	report, ok := ctx.Value(writtenKey{}).(func(Written))
	if !ok {
		return api
	}
	return notingAPI{api, report}
}

type notingAPI struct {
	dynamic.ResourceInterface
	report func(Written)
}

func (a notingAPI) note(u *unstructured.Unstructured, err error) (*unstructured.Unstructured, error) {
	if err == nil {
		a.report(Written{u.GetKind(), u.GetNamespace(), u.GetName(), u.GetResourceVersion()})
	}
	return u, err
}

// Create implements dynamic.ResourceInterface.
func (a notingAPI) Create(ctx context.Context, u *unstructured.Unstructured, o metav1.CreateOptions, subresources ...string) (*unstructured.Unstructured, error) {
	return a.note(a.ResourceInterface.Create(ctx, u, o, subresources...))
}

// Update implements dynamic.ResourceInterface.
func (a notingAPI) Update(ctx context.Context, u *unstructured.Unstructured, o metav1.UpdateOptions, subresources ...string) (*unstructured.Unstructured, error) {
	return a.note(a.ResourceInterface.Update(ctx, u, o, subresources...))
}

// Patch implements dynamic.ResourceInterface.
func (a notingAPI) Patch(ctx context.Context, name string, patch types.PatchType, data []byte, o metav1.PatchOptions, subresources ...string) (*unstructured.Unstructured, error) {
	return a.note(a.ResourceInterface.Patch(ctx, name, patch, data, o, subresources...))
}

// Apply implements dynamic.ResourceInterface.
func (a notingAPI) Apply(ctx context.Context, name string, u *unstructured.Unstructured, o metav1.ApplyOptions, subresources ...string) (*unstructured.Unstructured, error) {
	return a.note(a.ResourceInterface.Apply(ctx, name, u, o, subresources...))
}
