package kube

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// LeaseHolder returns the identity of who holds a Lease, and how long until it expires; "" for one
// that nobody holds. Every operator holds its Lease, so this finds one that runs in the namespace.
func (c *Client) LeaseHolder(ctx context.Context, namespace, name string) (holder string, left time.Duration, err error) {
	leases := schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	lease, err := c.dynamic.Resource(leases).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return "", 0, nil
	case err != nil:
		return "", 0, fmt.Errorf("read the Lease %s/%s: %w", namespace, name, err)
	}
	text, _, _ := unstructured.NestedString(lease.Object, "spec", "renewTime")
	seconds, _, _ := unstructured.NestedInt64(lease.Object, "spec", "leaseDurationSeconds")
	holder, _, _ = unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	renewed, _ := time.Parse(time.RFC3339Nano, text) // the zero time, if it was never renewed
	if left = time.Until(renewed.Add(time.Duration(seconds) * time.Second)); left <= 0 {
		return "", 0, nil
	}
	return holder, left, nil
}
