package kube

import (
	"context"
	"net/http"
)

// attempts is a transport that reports the outcome of each attempt at a request to the caller. The
// libraries retry requests without an answer for ten seconds, and in the end take a watch that was
// never opened for an empty one. Behind a load balancer, an API server that is away would go
// unnoticed.
type attempts struct{ next http.RoundTripper }

type attemptsKey struct{}

// withAttempts returns a context that calls report after each attempt at a request, with nil for
// any answer.
func withAttempts(ctx context.Context, report func(error)) context.Context {
	return context.WithValue(ctx, attemptsKey{}, report)
}

func reportAttempts(next http.RoundTripper) http.RoundTripper { return attempts{next} }

// metadataOnly is the key of a context whose lists and watches read metadata. An API server that cannot do that sends
// whole objects.
type metadataOnly struct{}

// RoundTrip implements http.RoundTripper.
func (a attempts) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Context().Value(metadataOnly{}) != nil {
		as := "PartialObjectMetadataList"
		if request.URL.Query().Get("watch") != "" {
			as = "PartialObjectMetadata"
		}
		request = request.Clone(request.Context()) // a transport must not change its request
		request.Header.Set("Accept", "application/json;as="+as+";g=meta.k8s.io;v=v1,application/json")
	}
	response, err := a.next.RoundTrip(request)
	if report, ok := request.Context().Value(attemptsKey{}).(func(error)); ok {
		report(err)
	}
	return response, err
}

// WrappedRoundTripper lets the libraries find the transport below.
func (a attempts) WrappedRoundTripper() http.RoundTripper { return a.next }
