package kube

import (
	"context"
	"net/http"
)

// attempts tells who waits for a request how each attempt at it went: the libraries try
// requests that got no answer again for ten seconds, and in the end take a watch that was
// never opened for an empty one. Where a load balancer stands before an API server that is
// away, nobody would hear of that.
type attempts struct{ next http.RoundTripper }

type attemptsKey struct{}

// withAttempts has tell called after each attempt at a request, with nil for an answer of
// whatever kind.
func withAttempts(ctx context.Context, tell func(error)) context.Context {
	return context.WithValue(ctx, attemptsKey{}, tell)
}

func tellAttempts(next http.RoundTripper) http.RoundTripper { return attempts{next} }

// RoundTrip implements http.RoundTripper.
func (a attempts) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := a.next.RoundTrip(request)
	if tell, ok := request.Context().Value(attemptsKey{}).(func(error)); ok {
		tell(err)
	}
	return response, err
}

// WrappedRoundTripper lets the libraries find what is below.
func (a attempts) WrappedRoundTripper() http.RoundTripper { return a.next }
