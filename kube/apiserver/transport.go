package apiserver

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"

	"k8s.io/client-go/rest"
)

// RESTConfig is how clients of the same process reach the server: by calls, without a connection,
// so that time may be virtual (a goroutine that waits for a socket would keep it from moving).
// There is no rate limit.
func (s *Server) RESTConfig() *rest.Config {
	return &rest.Config{Host: "http://memory", Transport: transport{s}, QPS: -1}
}

// transport calls a server in the goroutine of the request. Only what a watch sends comes from a
// goroutine of its own. The context of a request ends a watch; another request is done at once.
type transport struct{ server *Server }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if r.Body == nil { // a handler may rely on a body, and a transport must not change its request
		r = r.Clone(r.Context())
		r.Body = http.NoBody
	} else {
		defer r.Body.Close()
	}
	if isTrue(r.URL.Query().Get("watch")) {
		return t.stream(r), nil
	}
	answer := &buffered{header: http.Header{}, code: http.StatusOK}
	t.server.ServeHTTP(answer, r)
	return answer.response(r, io.NopCloser(&answer.body)), nil
}

// buffered is an answer that is complete before it is read.
type buffered struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (b *buffered) Header() http.Header                { return b.header }
func (b *buffered) WriteHeader(code int)               { b.code = code }
func (b *buffered) Write(data []byte) (n int, _ error) { return b.body.Write(data) }

func (b *buffered) response(r *http.Request, body io.ReadCloser) *http.Response {
	return &http.Response{
		Status: http.StatusText(b.code), StatusCode: b.code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: b.header, Body: body, ContentLength: -1, Request: r,
	}
}

// stream answers as soon as the head of the answer is written; the rest comes through a pipe until
// the reader closes it. Its goroutine ends with the handler: when the reader closes the body, the
// context of the request ends, or the watch has lasted its time.
func (t transport) stream(r *http.Request) *http.Response {
	ctx, cancel := context.WithCancel(r.Context())
	reader, writer := io.Pipe()
	answer := &streamed{buffered: buffered{header: http.Header{}, code: http.StatusOK}, begun: make(chan struct{}), pipe: writer}
	go func() {
		defer cancel()
		t.server.ServeHTTP(answer, r.WithContext(ctx))
		answer.WriteHeader(http.StatusOK) // else a handler that has written nothing would leave stream waiting
		_ = writer.Close()                // it never fails
	}()
	<-answer.begun
	return answer.response(r, closing{reader, cancel})
}

// streamed is an answer that is read while it is written. Each Write waits until it is read.
type streamed struct {
	buffered
	once  sync.Once
	begun chan struct{} // closed when the head is written
	pipe  *io.PipeWriter
}

func (s *streamed) WriteHeader(code int) {
	s.once.Do(func() {
		s.code = code
		s.header = s.header.Clone() // the handler may not change what is sent
		close(s.begun)
	})
}

func (s *streamed) Write(data []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	return s.pipe.Write(data)
}

// Flush implements http.Flusher: nothing is held back.
func (s *streamed) Flush() {}

// closing ends the handler when the reader stops: its context, in case it waits for a change, and
// the pipe, in case it waits for a reader.
type closing struct {
	*io.PipeReader
	cancel context.CancelFunc
}

// Close implements io.Closer.
func (c closing) Close() error {
	c.cancel()
	return c.PipeReader.Close()
}
