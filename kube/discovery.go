package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// catalog lists the API groups and the resources of the API server. The error of a partial answer,
// which lacks the groups whose servers do not answer, comes with the groups and resources that
// there are: discovery.GroupDiscoveryFailedErrorGroups takes it apart.
type catalog func(ctx context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error)

// discoveryOf is the catalog of an API server. Discovery in client-go 0.36 takes no context and waits for a silent API
// server for 32 s, so the transport adds the context of a call to each of its requests, which end with the call: no
// part of a discovery continues after an error.
func discoveryOf(config *rest.Config, transport *http.Client) catalog {
	return func(ctx context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		client := *transport
		client.Transport = canceller{ctx: ctx, next: transport.Transport}
		api, err := discovery.NewDiscoveryClientForConfigAndClient(config, &client)
		if err != nil {
			return nil, nil, err
		}
		return api.ServerGroupsAndResources()
	}
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

// Discovery is what an API server reports about itself.
type Discovery struct {
	Version version.Info
	Kinds   []*metav1.APIResourceList // in the server's order, preferred versions first
	Away    []schema.GroupVersion     // whose kinds are unknown: their servers do not answer
}

// Discover asks the API server for its version and for all kinds, past what the client remembers of
// kinds: its callers want what is served now. That some groups do not answer is no error, but in
// Away.
func (c *Client) Discover(ctx context.Context) (Discovery, error) {
	var d Discovery
	data, err := c.core.RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	if err == nil {
		err = json.Unmarshal(data, &d.Version)
	}
	if err != nil {
		return d, fmt.Errorf("read the version of the API server: %w", err)
	}
	lists, failed, err := c.kinds.ask(ctx)
	if err != nil {
		return d, err
	}
	d.Kinds = lists
	d.Away = slices.SortedFunc(maps.Keys(failed), func(a, b schema.GroupVersion) int { return cmp.Compare(a.String(), b.String()) })
	return d, nil
}

// FindKind resolves what users write, as a kubernetes binding does (C15); an empty apiVersion means
// the preferred version. The answer may be that of an earlier discovery.
func (c *Client) FindKind(ctx context.Context, apiVersion, word string) (resource schema.GroupVersionResource, namespaced bool, err error) {
	found, err := c.kinds.resolve(ctx, apiVersion, word, false)
	return found.resource, found.namespaced, err
}
