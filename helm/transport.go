package helm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// requestLimit is the longest time one API request may take. rest.Config.Timeout
// is not used for it, because that would cut watches too.
const requestLimit = 30 * time.Second

// limitTransport limits the time of every request but those that stay open by
// design.
type limitTransport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t limitTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if isStream(req) {
		return t.next.RoundTrip(req)
	}
	ctx, cancel := context.WithTimeout(req.Context(), requestLimit)
	return roundTrip(t.next, req.WithContext(ctx), cancel)
}

// boundTransport binds every request of one operation to the context of that operation. Helm passes
// context.Background everywhere, and its RunWithContext returns early while the work continues.
// Here a cancelled context stops the writes themselves. It also keeps details of failures that the errors of Helm
// lack (failure), and answers repeated reads. It is safe for concurrent use.
type boundTransport struct {
	ctx  context.Context
	next http.RoundTripper

	last atomic.Pointer[failure]

	mu    sync.Mutex      // for the next two
	keeps bool            // answers to reads are kept
	reads map[string]kept // by path; a query is never kept
}

// failure is what the transport has seen of the last refused request.
type failure struct {
	code        int  // HTTP status; 0: none was refused
	unavailable bool // no answer came at all
	// refused is the answer, if it is one of the API server.
	refused *metav1.Status
}

// RoundTrip implements http.RoundTripper.
func (t *boundTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.ctx.Err(); err != nil {
		return nil, asText(err)
	}
	if resp := t.known(req); resp != nil {
		return resp, nil
	}
	ctx, cancel := context.WithCancel(req.Context())
	stop := context.AfterFunc(t.ctx, cancel)
	resp, err := roundTrip(t.next, req.WithContext(ctx), func() { stop(); cancel() })
	if err != nil {
		if t.ctx.Err() != nil {
			return nil, asText(t.ctx.Err())
		}
		t.note(failure{unavailable: true})
		return nil, err
	}
	t.judge(req.Method, resp)
	return t.keep(req, resp)
}

// judge remembers refusals, because Helm returns them as text only. Reads that find nothing are no
// refusals, and a conflict is none when a later write succeeds: client-go retries those itself.
func (t *boundTransport) judge(method string, resp *http.Response) {
	read, code := method == http.MethodGet, resp.StatusCode
	switch {
	case code >= http.StatusInternalServerError, !read && code >= http.StatusBadRequest && code != http.StatusNotFound:
		t.note(failure{code: code, refused: statusIn(resp)})
	case !read && t.failed().code == http.StatusConflict:
		t.note(failure{})
	}
}

// statusIn reads the Status in a refusal; nil when it has none. The caller of the request reads it again.
func statusIn(resp *http.Response) *metav1.Status {
	const longest = 1 << 20
	head, _ := io.ReadAll(io.LimitReader(resp.Body, longest)) // who reads on gets the error
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
	status := &metav1.Status{}
	if json.Unmarshal(head, status) != nil || status.Kind != "Status" {
		return nil
	}
	return status
}

func (t *boundTransport) failed() failure {
	if last := t.last.Load(); last != nil {
		return *last
	}
	return failure{}
}

func (t *boundTransport) note(f failure) { t.last.Store(&f) }

// roundTrip calls release when the request has failed or its body is closed, and not before:
// release cancels the context, which would cut the body.
func roundTrip(next http.RoundTripper, req *http.Request, release func()) (*http.Response, error) {
	resp, err := next.RoundTrip(req)
	if err != nil {
		release()
		return nil, asText(err)
	}
	resp.Body = &releasingBody{ReadCloser: resp.Body, release: release}
	return resp, nil
}

// asText hides that the cause of an error is the end of a context. Helm writes through client-go's
// retry.OnError, which before 0.37 takes such an error for its own end and reports success:
// an object that was never created would be in a release that is deployed.
func asText(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return errors.New(err.Error())
	}
	return err
}

// isStream reports requests that stay open by design: watches and logs.
func isStream(req *http.Request) bool {
	q := req.URL.Query()
	return q.Get("watch") == "true" || q.Get("watch") == "1" || q.Get("follow") == "true"
}

// releasingBody frees the timer and the context hook of a request at Close.
type releasingBody struct {
	io.ReadCloser
	release func()
}

// Read implements io.Reader.
func (b *releasingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || errors.Is(err, io.EOF) {
		return n, err
	}
	return n, asText(err)
}

// Close implements io.Closer.
func (b *releasingBody) Close() error {
	err := b.ReadCloser.Close()
	b.release()
	return err
}

// readAge is how long an answer that was kept may be used. A change that another client makes
// meanwhile has the same effect as one right after the read: the patch that follows is made for the
// object as it was read, here and in Helm.
const readAge = 5 * time.Second

// kept is the answer to the read of an object. Helm reads an object up to three
// times before it writes it, and we have read it before to see its owner.
type kept struct {
	at     time.Time
	status int
	header http.Header
	body   []byte
}

// keepReads drops all answers, and sets whether new ones are kept.
func (t *boundTransport) keepReads(yes bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keeps, t.reads = yes, map[string]kept{}
}

// presumeAbsent answers reads of objects that were not read yet with "not found". If that is not
// true, their creation fails (cluster.existing).
func (t *boundTransport) presumeAbsent(paths []string) {
	t.keepReads(true)
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, path := range paths {
		t.reads[path] = kept{at: time.Now(), status: http.StatusNotFound, header: http.Header{}}
	}
}

// known answers a read that was answered before; nil: the API server must. A write removes the
// answers for what it changes: the object itself, and for the path of a collection all below it.
func (t *boundTransport) known(req *http.Request) *http.Response {
	t.mu.Lock()
	defer t.mu.Unlock()
	if req.Method != http.MethodGet {
		maps.DeleteFunc(t.reads, func(path string, _ kept) bool {
			return path == req.URL.Path || strings.HasPrefix(path, req.URL.Path+"/")
		})
		return nil
	}
	answer, ok := t.reads[req.URL.Path]
	if !ok || req.URL.RawQuery != "" || time.Since(answer.at) > readAge {
		return nil
	}
	return answer.response(req)
}

// keep remembers the answer to a read of one object, if it shows whether the object exists. The body
// is read as a whole, and the caller gets a copy.
func (t *boundTransport) keep(req *http.Request, resp *http.Response) (*http.Response, error) {
	t.mu.Lock()
	keeps := t.keeps
	t.mu.Unlock()
	says := resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusNotFound
	if !keeps || !says || req.Method != http.MethodGet || req.URL.RawQuery != "" {
		return resp, nil
	}
	at := time.Now()
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	answer := kept{at, resp.StatusCode, resp.Header, body}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reads[req.URL.Path] = answer
	return answer.response(req), nil
}

func (k kept) response(req *http.Request) *http.Response {
	return &http.Response{
		Status: http.StatusText(k.status), StatusCode: k.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: k.header.Clone(), Body: io.NopCloser(bytes.NewReader(k.body)), ContentLength: int64(len(k.body)), Request: req,
	}
}
