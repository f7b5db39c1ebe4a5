package helm

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// answering is a transport that answers some requests itself, as long as it is on.
func (f *fixture) answering(method, path string, code int, on *atomic.Bool) {
	f.config.WrapTransport = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if !on.Load() || r.Method != method || !strings.HasSuffix(r.URL.Path, path) {
				return next.RoundTrip(r)
			}
			return &http.Response{
				StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
				Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader("{}")),
			}, nil
		})
	}
	f.restart()
}

// The deletion of a record is answered, but not done, as by a broken proxy: the next install finds the record, reads
// it, and continues from it. H8.
func TestRecordThatWasNotDeleted(t *testing.T) {
	f := start(t)
	var on atomic.Bool
	f.answering(http.MethodDelete, "/secrets/sh.helm.release.v1.simple.v1", http.StatusOK, &on)
	m := module(t, "simple").with("text", "one")
	f.apply(m, Installed, 1)
	on.Store(true)
	f.uninstall("simple", true)
	wantError(t, second(f.client.Apply(t.Context(), m)), "already exists")
	on.Store(false)
	if outcome, err := f.client.Apply(t.Context(), m); err != nil {
		t.Errorf("the next attempt: %+v, %v", outcome, err)
	}
	if f.configMap("simple-a") == nil {
		t.Error("its object is absent")
	}
}
