package helm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"addon-operator/helm/manifest"
)

// dryTransport is a transport that turns writes of objects into dry runs of the API server. Deletions
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

// newDryTransport makes a transport that reads through another one.
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

// Verb is what would happen to an object.
type Verb string

// Verbs.
const (
	Created Verb = "create"
	Changed Verb = "change"
	Deleted Verb = "delete"
)

// Change is what an Apply or an Uninstall would do to one object.
type Change struct {
	Object manifest.Object
	Verb   Verb
	// Note names the part that could not be tried, and the reason; empty when the API server has tried the change.
	// With a Note, After is the object that was sent, or the present object.
	Note string

	// Before and After are the object as the API server has it, values of Secrets included; nil:
	// there is none. They are not changed: what is shown is made of copies.
	Before, After map[string]any

	// Mask hides more than the values of Secrets, in a copy of the same structure; nil for no more.
	Mask func(object map[string]any) map[string]any
}

// Field is one value of an object that would change.
type Field struct {
	Path          string // such as spec.template.spec.containers[0].image
	Before, After any    // nil: there is none
}

// masked replaces a value of a Secret.
const masked = "***"

// Fields are the values that differ, sorted by their paths. Values of a Secret, and those that Mask selects,
// are masked, unless secrets is set; the masks still show that they differ.
func (c Change) Fields(secrets bool) []Field {
	var fields []Field
	before, after := c.shown(secrets)
	compare("", before, after, &fields)
	return fields
}

// Paths are those of the fields that differ, sorted.
func (c Change) Paths() (all []string) {
	for _, f := range c.Fields(false) {
		all = append(all, f.Path)
	}
	return all
}

// Diff is a unified diff of the object as YAML, without what the API server keeps
// for itself. It is empty for a deletion.
func (c Change) Diff(secrets bool) string {
	if c.Verb == Deleted {
		return ""
	}
	before, after := c.shown(secrets)
	return manifest.Unified(before, after, c.Object.String()+" (cluster)", c.Object.String()+" (planned)")
}

// shown are both sides without noise and, unless secrets shall be shown, without
// the values of a Secret and what Mask hides.
func (c Change) shown(secrets bool) (before, after map[string]any) {
	before, after = cleaned(c.Before), cleaned(c.After)
	if secrets {
		return before, after
	}
	return HideBoth(before, after, func(object map[string]any) map[string]any {
		if gvk := c.Object.GVK; gvk.Group == "" && gvk.Kind == "Secret" {
			object = withoutData(object)
		}
		if c.Mask != nil {
			object = c.Mask(object)
		}
		return object
	})
}

// cleaned copies an object without what the API server writes itself: status is a controller's, and
// the other fields change with each write.
func cleaned(object map[string]any) map[string]any {
	if object == nil {
		return nil
	}
	out := runtime.DeepCopyJSON(object)
	delete(out, "status")
	if metadata, ok := out["metadata"].(map[string]any); ok {
		for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"} {
			delete(metadata, field)
		}
	}
	return out
}

// lastApplied holds the whole object, and so the values of a Secret, too.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// withoutData is a copy of a Secret without its values.
func withoutData(secret map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(secret)
	for _, field := range []string{"data", "stringData"} {
		data, _ := out[field].(map[string]any)
		for key := range data {
			data[key] = masked
		}
	}
	metadata, _ := out["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations[lastApplied] != nil {
		annotations[lastApplied] = masked
	}
	return out
}

// compare collects the leaves that differ. Lists of another length differ as a whole, because it
// would be a guess which element was removed.
func compare(path string, before, after any, fields *[]Field) {
	b, ok1 := before.(map[string]any)
	a, ok2 := after.(map[string]any)
	if ok1 && ok2 {
		keys := maps.Clone(b)
		maps.Copy(keys, a)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			compare(join(path, key), b[key], a[key], fields)
		}
		return
	}
	bl, ok1 := before.([]any)
	al, ok2 := after.([]any)
	if ok1 && ok2 && len(bl) == len(al) {
		for i := range bl {
			compare(fmt.Sprintf("%s[%d]", path, i), bl[i], al[i], fields)
		}
		return
	}
	if !equalValues(before, after) {
		*fields = append(*fields, Field{path, before, after})
	}
}

// equalValues does not distinguish an integer from the same number as a float: decoders differ in
// it. JSON is only compared when the quick way finds a difference.
func equalValues(a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// join appends a key to a path; one with dots or slashes is in brackets.
func join(path, key string) string {
	if strings.ContainsAny(key, "./[]") {
		return fmt.Sprintf("%s[%q]", path, key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// HideBoth masks differing values on both sides, so that neither the old nor the new secret is shown,
// but the fact that they differ is. A mask keeps the structure of an object; nil is an
// object that does not exist.
//
// A value is a secret as soon as one side looks like one: a password that was replaced by a
// harmless text must not be shown on the left. Neither before nor after is changed; the results may
// share parts with what mask returns.
func HideBoth(before, after map[string]any, mask func(object map[string]any) map[string]any) (map[string]any, map[string]any) {
	if before == nil || after == nil {
		if before != nil {
			before = mask(before)
		}
		if after != nil {
			after = mask(after)
		}
		return before, after
	}
	b, a := hide(before, after, mask(before), mask(after))
	old, _ := b.(map[string]any)
	fresh, _ := a.(map[string]any)
	return old, fresh
}

// hide returns what may be shown of a value before and after; the last two are what the mask shows of them. It
// descends as long as both sides have the same structure. Of anything else that differs, nothing is shown if the mask
// has found a secret on one side.
func hide(b, a, shownB, shownA any) (any, any) {
	oldMap, ok1 := b.(map[string]any)
	newMap, ok2 := a.(map[string]any)
	if ok1 && ok2 {
		hiddenB, _ := shownB.(map[string]any)
		hiddenA, _ := shownA.(map[string]any)
		outB, outA := maps.Clone(hiddenB), maps.Clone(hiddenA)
		for key, value := range oldMap {
			if other, both := newMap[key]; both {
				outB[key], outA[key] = hide(value, other, hiddenB[key], hiddenA[key])
			}
		}
		return outB, outA
	}
	oldList, _ := b.([]any)
	newList, _ := a.([]any)
	hiddenB, _ := shownB.([]any)
	hiddenA, _ := shownA.([]any)
	if n := len(oldList); n > 0 && n == len(newList) && n == len(hiddenB) && n == len(hiddenA) {
		outB, outA := make([]any, n), make([]any, n)
		for i := range n {
			outB[i], outA[i] = hide(oldList[i], newList[i], hiddenB[i], hiddenA[i])
		}
		return outB, outA
	}
	isHiddenA := !equalValues(a, shownA)
	switch {
	case !isHiddenA && equalValues(b, shownB):
		return b, a
	case equalValues(b, a) && isHiddenA: // a mask decides by what is around a value, too
		return shownA, shownA
	case equalValues(b, a):
		return shownB, shownB
	}
	return hidden(b, masked), hidden(a, masked+changedMark)
}

// hidden is the mark in the place of a value; that there is none is shown.
func hidden(value any, mark string) any {
	if value == nil {
		return nil
	}
	return mark
}

// changedMark marks a hidden value that differs.
const changedMark = " (changed)"
