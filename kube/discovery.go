package kube

import (
	"context"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// catalog lists the API groups and the resources of the API server.
type catalog interface {
	list(ctx context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error)
}

// cancellable is a catalog whose requests end with the caller's context.
// Discovery in client-go 0.36 takes no context and waits for a silent API
// server for 32 s, so the transport adds the context to each request.
type cancellable struct {
	config *rest.Config
	http   *http.Client
}

func (c cancellable) list(ctx context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := *c.http
	client.Transport = canceller{ctx: ctx, next: c.http.Transport}
	api, err := discovery.NewDiscoveryClientForConfigAndClient(c.config, &client)
	if err != nil {
		return nil, nil, err
	}
	return api.ServerGroupsAndResources()
}

// canceller cancels requests when ctx ends. They keep their own deadline.
type canceller struct {
	ctx  context.Context
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c canceller) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) }) // list ends c.ctx, and with it this
	return c.next.RoundTrip(req.WithContext(ctx))
}
