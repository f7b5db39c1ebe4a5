package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Request is one request of a client for objects, as OnRequest shows it.
type Request struct {
	schema.GroupVersionResource

	Verb            string         // as RBAC names it
	Namespace, Name string         // "" for those of all namespaces, and for all objects
	Object          map[string]any // to be created, else nil
}

// request is a request for objects:
// /apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME/SUBRESOURCE. Discovery is answered before
// (kinds.go).
//
// This file has what all verbs share, and the verbs with one answer; watch has a stream
// (stream.go). A request goes through newRequest, review, its verb and shown, in one
// goroutine.
type request struct {
	selection
	http        *http.Request
	query       url.Values
	store       *store
	verb        string // as RBAC names it; empty: none for this method and path
	kind        *kind  // never nil
	subresource string // empty: the object itself
	partial     bool   // the client wants no more than metadata
	created     bool   // the answer is an object that did not exist
}

// write is how the request wants an object to be written.
func (q *request) write() write { return write{dry: q.dry(), subresource: q.subresource} }

func (q *request) dry() bool { return q.query.Get("dryRun") != "" }

// ServeHTTP implements http.Handler. Every answer but a watch is complete before its first byte is
// sent. A watch sends its errors as events once it has begun; what is wrong before that is an
// answer.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if serveDiscovery(w, r, s.store.served(), s.version) {
		return
	}
	q, err := newRequest(s.store, r)
	if err == nil && q.verb != "create" {
		err = q.review(nil)
	}
	if err == nil && q.verb == "watch" {
		if err = q.watch(w); err == nil {
			return
		}
	}
	var answer any
	if err == nil {
		s.serving.Add(1)
		answer, err = q.serve()
		s.serving.Add(-1)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	code := http.StatusOK
	if q.created {
		code = http.StatusCreated
	}
	if u, ok := answer.(*unstructured.Unstructured); ok {
		answer = q.shown(u)
	}
	writeJSON(w, code, answer)
}

// review calls the observer of requests, which may refuse them: scenarios inject faults by that. A
// creation is reviewed later, when its object is known. The lock makes reviews come one at a time.
func (q *request) review(object map[string]any) error {
	q.store.mu.Lock()
	defer q.store.mu.Unlock()
	if q.store.review == nil {
		return nil
	}
	return q.store.review(Request{
		GroupVersionResource: q.kind.WithResource(q.kind.plural), Verb: q.verb, Namespace: q.namespace, Name: q.name,
		Object: object,
	})
}

// serve answers whatever has one answer.
func (q *request) serve() (any, error) {
	switch q.verb {
	case "get":
		return q.store.get(q.kind, q.namespace, q.name)
	case "list":
		return q.list(), nil
	case "create":
		return q.create()
	case "update":
		return q.update()
	case "patch":
		return q.patch()
	case "delete":
		return q.delete()
	}
	return nil, apierrors.NewMethodNotSupported(q.kind.resource(), q.http.Method)
}

// verb is what RBAC calls a method for one object or for all; "" for none, which serve refuses.
func verb(method string, one, watch bool) string {
	verbs := map[string]struct{ all, one string }{
		http.MethodGet: {"list", "get"}, http.MethodPost: {"create", ""}, http.MethodPut: {"", "update"},
		http.MethodPatch: {"", "patch"}, http.MethodDelete: {"", "delete"},
	}[method]
	switch {
	case watch && method == http.MethodGet:
		return "watch"
	case one:
		return verbs.one
	}
	return verbs.all
}

func isTrue(text string) bool { return text == "true" || text == "1" }

// newRequest takes a path apart and finds its kind. A path that is not served is NotFound, as is a
// namespace of a cluster-wide kind and a subresource that the kind does not have.
func newRequest(s *store, r *http.Request) (*request, error) {
	unknown := failure(http.StatusNotFound, metav1.StatusReasonNotFound, "the API server of scenarios does not serve "+r.Method+" "+r.URL.Path)
	gv, parts := splitPath(r.URL.Path)
	if len(parts) == 0 {
		return nil, unknown
	}
	q := &request{http: r, query: r.URL.Query(), store: s}
	var err error
	if q.selection, err = newSelection(q.query.Get("labelSelector"), q.query.Get("fieldSelector")); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	// namespaces/x/pods is about Pods, namespaces/x/status about the Namespace.
	if len(parts) > 2 && parts[0] == "namespaces" && !(len(parts) == 3 && slices.Contains([]string{"status", "finalize"}, parts[2])) {
		q.namespace, parts = parts[1], parts[2:]
	}
	q.kind = s.served().at(gv, parts[0])
	if len(parts) > 1 {
		q.name = parts[1]
	}
	q.subresource = strings.Join(parts[min(2, len(parts)):], "/")
	part := q.subresource != ""
	if q.kind == nil || part && (q.subresource != "status" || !q.kind.status) || q.namespace != "" && !q.kind.namespaced {
		return nil, unknown
	}
	q.resource = q.kind.resource()
	q.verb = verb(r.Method, q.name != "", isTrue(q.query.Get("watch")))
	q.partial = strings.Contains(r.Header.Get("Accept"), "as=PartialObjectMetadata")
	return q, nil
}

// splitPath cuts group and version off a path. Whether they are served is not checked.
func splitPath(path string) (gv schema.GroupVersion, rest []string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 1 && parts[0] == "api":
		return schema.GroupVersion{Version: parts[1]}, parts[2:]
	case len(parts) > 2 && parts[0] == "apis":
		return schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	}
	return gv, nil
}

// body reads the object of the request, in JSON, YAML or protobuf, and checks that it belongs there. Only typed
// clients send protobuf, so the Go type of such an object is known.
func (q *request) body() (*unstructured.Unstructured, error) {
	data, err := io.ReadAll(q.http.Body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	u := &unstructured.Unstructured{}
	if strings.Contains(q.http.Header.Get("Content-Type"), "protobuf") {
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if u.Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(object); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	} else if u.Object, err = decode(data); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return u, q.place(u)
}

// place checks that an object is of the kind and namespace of the request, and sets the namespace,
// which clients may leave out.
func (q *request) place(u *unstructured.Unstructured) error {
	if u.GetKind() != "" && u.GetKind() != q.kind.name {
		return apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s", u.GetKind(), q.kind.Version, q.kind.name))
	}
	if !q.kind.namespaced {
		u.SetNamespace("")
		return nil
	}
	if u.GetNamespace() != "" && u.GetNamespace() != q.namespace {
		return apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	u.SetNamespace(q.namespace)
	return nil
}

// create serves POST.
func (q *request) create() (any, error) {
	u, err := q.body()
	if err == nil {
		err = q.review(u.Object)
	}
	if err != nil {
		return nil, err
	}
	q.created = true
	return q.store.create(q.kind, u, q.write())
}

// update replaces an object.
func (q *request) update() (any, error) {
	u, err := q.body()
	if err != nil {
		return nil, err
	}
	w := q.write()
	w.replace = true
	return q.store.update(q.kind, q.namespace, q.name, w, func(*unstructured.Unstructured) (*unstructured.Unstructured, error) { return u, nil })
}

// delete answers with the object while something holds it, and otherwise with a Status: clients
// conclude from that whether they have to wait.
func (q *request) delete() (any, error) {
	d := q.deletion()
	u, err := q.store.delete(q.kind, q.namespace, q.name, d)
	if err != nil {
		return nil, err
	}
	if !d.dry && (d.orphan || u.GetDeletionTimestamp() != nil || q.kind.resource() == definitions) {
		return u, nil // in a cluster a finalizer holds it for a moment at least
	}
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: q.name, Group: q.kind.Group, Kind: q.kind.plural, UID: u.GetUID()},
	}, nil
}

// deletion reads the options of a deletion, which can be in the body or in the query. A policy in
// the body wins.
func (q *request) deletion() deletion {
	var options metav1.DeleteOptions
	if data, err := io.ReadAll(q.http.Body); err == nil && len(data) > 0 {
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, &options); err != nil {
			_ = json.Unmarshal(data, &options) // without kind and apiVersion; what cannot be read asks for nothing
		}
	}
	policy := q.query.Get("propagationPolicy")
	if options.PropagationPolicy != nil {
		policy = string(*options.PropagationPolicy)
	}
	return deletion{preconditions: options.Preconditions, orphan: policy == string(metav1.DeletePropagationOrphan), dry: q.dry() || len(options.DryRun) > 0}
}

// list is all objects that are asked for, in the order of the storage of a cluster. There are no pages, whatever
// limit a client sends: it gets all of them, as it may from any API server. Objects of built-in kinds lack kind and
// apiVersion there, as in answers of real API servers: a client that relies on them fails here, too.
func (q *request) list() map[string]any {
	objects, version := q.selected()
	items := make([]any, 0, len(objects)) // not nil: in JSON it must be a list
	for _, u := range objects {
		item := q.shown(u)
		if !q.kind.custom && !q.partial {
			item = maps.Clone(item)
			delete(item, "apiVersion")
			delete(item, "kind")
		}
		items = append(items, item)
	}
	list := map[string]any{"apiVersion": q.kind.String(), "kind": q.kind.name + "List", "metadata": map[string]any{"resourceVersion": strconv.FormatInt(version, 10)}, "items": items}
	if q.partial {
		list["apiVersion"], list["kind"] = "meta.k8s.io/v1", "PartialObjectMetadataList"
	}
	return list
}

// selected are the objects that are asked for, and their version.
func (q *request) selected() (list []*unstructured.Unstructured, version int64) {
	q.store.mu.Lock()
	defer q.store.mu.Unlock()
	for _, at := range q.store.keys(q.matches) {
		list = append(list, q.store.objects[at])
	}
	return list, q.store.number
}

// shown is an object, or its subresource, in the version of the request. All versions of a kind
// have the same fields here: only the apiVersion differs.
func (q *request) shown(u *unstructured.Unstructured) map[string]any {
	if q.partial {
		return map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": u.Object["metadata"]}
	}
	if u.GetAPIVersion() == q.kind.String() {
		return u.Object
	}
	other := u.DeepCopy()
	other.SetAPIVersion(q.kind.String())
	return other.Object
}

func writeJSON(w http.ResponseWriter, code int, answer any) {
	data, err := json.Marshal(answer)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(data) // a client that is gone needs no answer
}

// failure is an error of the API, for those that the library has no function for.
func failure(code int32, reason metav1.StatusReason, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason, Message: message}}
}

// internal is an error that an API server gives no reason for.
func internal(text string) error { return failure(http.StatusInternalServerError, "", text) }

// writeError answers with a Status, from which client libraries make the same error again. An error
// without a status is one of this program: code 500.
func writeError(w http.ResponseWriter, err error) {
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	out := status.Status()
	out.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	writeJSON(w, int(out.Code), out)
}
