package helm

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
)

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
