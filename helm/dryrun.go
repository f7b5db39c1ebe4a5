package helm

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/helm/manifest"
)

// Objects is a transport that turns writes of objects into dry runs of the API server. Deletions
// are answered here, without a request. It notes what would change, so that the code of an apply
// can be used for plans unchanged. It is safe for concurrent use.
//
// The API server forgets a dry run at once, so a change does not see the ones before it: an object
// that was "created" cannot be read, and its namespace may not exist (notes).
type dryTransport struct {
	next http.RoundTripper

	mu      sync.Mutex // not held during requests
	changes []Change   // one for each object, in the order of the first write
}

var _ http.RoundTripper = (*dryTransport)(nil)

// New makes a transport that reads through another one.
func newDryTransport(next http.RoundTripper) *dryTransport { return &dryTransport{next: next} }

// RoundTrip implements http.RoundTripper. An unknown method is an error: it might write.
func (r *dryTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	switch req.Method {
	case http.MethodGet, http.MethodHead:
		return r.next.RoundTrip(req)
	case http.MethodPost:
		return r.create(req)
	case http.MethodPatch, http.MethodPut:
		return r.change(req)
	case http.MethodDelete:
		return r.remove(req)
	}
	return nil, fmt.Errorf("bug: a dry run cannot %s %s", req.Method, req.URL.Path)
}

// dryRun sends a write that the API server checks, completes and forgets. It returns the response,
// whose body can still be read, and that body.
func (r *dryTransport) dryRun(req *http.Request, body []byte) (*http.Response, []byte, error) {
	dry := req.Clone(req.Context())
	query := dry.URL.Query()
	query.Set("dryRun", metav1.DryRunAll)
	dry.URL.RawQuery = query.Encode()
	dry.Body, dry.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	// net/http sends a request again, when the server has closed an idle connection, only with it.
	dry.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	resp, err := r.next.RoundTrip(dry)
	if err != nil {
		return nil, nil, err
	}
	answer, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(answer))
	return resp, answer, nil
}

// noDryRun recognises the refusal of a dry run because an admission webhook has side effects. The
// API server has no reason of its own for it, so the text decides.
func noDryRun(code int, answer []byte) bool {
	return code == http.StatusBadRequest && bytes.Contains(answer, []byte("dry run"))
}

// Notes of changes that the API server was not able to try.
const (
	NoteWebhook   = "an admission webhook does not support dry runs, so this change was not tested"
	NoteNamespace = "its namespace does not exist yet"
	NoteKind      = "the API server does not serve its kind yet"
)

// create tries a POST. Where the API server cannot try it, because a webhook forbids dry runs, or the
// namespace will only exist after other changes of this plan, the
// answer is the object as it was sent, with a note. Other refusals are those of the real write.
func (r *dryTransport) create(req *http.Request) (*http.Response, error) {
	body, err := bodyOf(req)
	if err != nil {
		return nil, err
	}
	wanted, err := objectIn(body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", req.URL.Path, err)
	}
	resp, answer, err := r.dryRun(req, body)
	if err != nil {
		return nil, err
	}
	change := Change{Object: manifest.Of(wanted), Verb: Created, After: wanted.Object}
	switch {
	case resp.StatusCode < http.StatusMultipleChoices:
	case noDryRun(resp.StatusCode, answer):
		change.Note = NoteWebhook
	case resp.StatusCode == http.StatusNotFound && wanted.GetNamespace() != "" && bytes.Contains(answer, []byte("namespaces")):
		change.Note = NoteNamespace
	default:
		return resp, nil
	}
	r.Note(change)
	if change.Note != "" {
		return respond(req, http.StatusCreated, body), nil
	}
	return resp, nil
}

// change tries a PATCH or PUT, and compares the answer with the object before. Without the object,
// or if the write is refused, nothing is noted, and the caller gets the answer.
func (r *dryTransport) change(req *http.Request) (*http.Response, error) {
	body, err := bodyOf(req)
	if err != nil {
		return nil, err
	}
	before, raw, err := r.read(req)
	if err != nil {
		return nil, err
	}
	resp, answer, err := r.dryRun(req, body)
	if err != nil || before == nil {
		return resp, err
	}
	change := Change{Object: manifest.Of(before), Verb: Changed, Before: before.Object}
	switch {
	case resp.StatusCode < http.StatusMultipleChoices:
		after, err := objectIn(answer)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", req.URL.Path, err)
		}
		change.After = after.Object
		r.Note(change)
		return resp, nil
	case noDryRun(resp.StatusCode, answer):
		change.Note, change.After = NoteWebhook, before.Object
		r.Note(change)
		return respond(req, http.StatusOK, raw), nil
	}
	return resp, nil
}

// remove sends no DELETE: the options of a deletion are in the body that Helm sends, and if the API
// server did not understand one with dryRun, the object would be gone.
func (r *dryTransport) remove(req *http.Request) (*http.Response, error) {
	before, _, err := r.read(req)
	if err != nil {
		return nil, err
	}
	if before == nil {
		return respondStatus(req, http.StatusNotFound, metav1.StatusFailure, metav1.StatusReasonNotFound), nil
	}
	r.Note(Change{Object: manifest.Of(before), Verb: Deleted, Before: before.Object})
	return respondStatus(req, http.StatusOK, metav1.StatusSuccess, ""), nil
}

// read gets the object that a write is about as the cluster has it; nil when there is none or it may not be read. Then
// the write itself reports that.
func (r *dryTransport) read(req *http.Request) (*unstructured.Unstructured, []byte, error) {
	address := *req.URL
	address.RawQuery = ""
	get, err := http.NewRequestWithContext(req.Context(), http.MethodGet, address.String(), http.NoBody)
	if err != nil {
		return nil, nil, err
	}
	get.Header.Set("Accept", "application/json")
	get.Header.Set("User-Agent", req.Header.Get("User-Agent"))
	resp, err := r.next.RoundTrip(get)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, nil, err
	}
	object, err := objectIn(body)
	return object, body, err
}

// Note remembers a change. An object that is written several times is one change: from what it was
// at first to what it is at last. A write that changes nothing is none.
func (r *dryTransport) Note(c Change) {
	if c.Verb == Changed && c.Note == "" && len(c.Fields(true)) == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, known := range r.changes {
		if known.Object == c.Object {
			if known.Before != nil {
				c.Before = known.Before
			}
			if c.Verb == Changed && known.Verb == Created {
				c.Verb = Created
			}
			r.changes[i] = c
			return
		}
	}
	r.changes = append(r.changes, c)
}

// Changes are those so far, sorted by the names of the objects.
func (r *dryTransport) Changes() []Change {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.SortedFunc(slices.Values(r.changes), func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Object.String(), b.Object.String()), cmp.Compare(a.Object.GVK.Group, b.Object.GVK.Group))
	})
}

func bodyOf(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	body, err := io.ReadAll(req.Body)
	return body, errors.Join(err, req.Body.Close())
}

// objectIn parses an object. Its error does not quote it: it may be a Secret.
func objectIn(data []byte) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		return nil, fmt.Errorf("read an object: %w", err)
	}
	return u, nil
}

func respond(req *http.Request, code int, body []byte) *http.Response {
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

func respondStatus(req *http.Request, code int, status string, reason metav1.StatusReason) *http.Response {
	text := fmt.Sprintf(`{"kind": "Status", "apiVersion": "v1", "status": %q, "reason": %q, "code": %d}`, status, reason, code)
	return respond(req, code, []byte(text))
}
