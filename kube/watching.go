package kube

import "net/http"

// watchingKey is the key of a context of requests to list and to watch; its value is whether they read metadata.
type watchingKey struct{}

// noAnswer hides from the libraries why a request to list or to watch got no answer. They would retry it for ten
// seconds, and in the end take a watch that was never opened for an empty one: behind a load balancer, an API server
// that is away would go unnoticed.
type noAnswer struct{ cause error }

// Error implements error.
func (noAnswer) Error() string { return "no answer" }

// watching is a transport for requests to list and to watch.
type watching struct{ next http.RoundTripper }

func newWatching(next http.RoundTripper) http.RoundTripper { return watching{next} }

// RoundTrip implements http.RoundTripper. An API server that cannot read metadata only sends whole objects.
func (w watching) RoundTrip(request *http.Request) (*http.Response, error) {
	metadata, ours := request.Context().Value(watchingKey{}).(bool)
	if metadata {
		as := "PartialObjectMetadataList"
		if request.URL.Query().Get("watch") != "" {
			as = "PartialObjectMetadata"
		}
		request = request.Clone(request.Context()) // a transport must not change its request
		request.Header.Set("Accept", "application/json;as="+as+";g=meta.k8s.io;v=v1,application/json")
	}
	response, err := w.next.RoundTrip(request)
	if ours && err != nil {
		err = noAnswer{err}
	}
	return response, err
}

// WrappedRoundTripper lets the libraries find the transport below.
func (w watching) WrappedRoundTripper() http.RoundTripper { return w.next }
