package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// request is a request for objects: /apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME/SUBRESOURCE.
type request struct {
	*http.Request
	kind                         *kind
	namespace, name, subresource string
	selection                    selection
	dry                          bool
	created                      bool // the answer is an object that did not exist
}

// write is how the request wants an object to be written.
func (q *request) write() write {
	w := write{dry: q.dry, subresource: q.subresource, manager: q.URL.Query().Get("fieldManager")}
	if w.manager == "" {
		w.manager, _, _ = strings.Cut(q.UserAgent(), "/")
	}
	return w
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.serveDiscovery(w, r) {
		return
	}
	q, err := s.parse(r)
	if err == nil && r.Method == http.MethodGet && isTrue(r.URL.Query().Get("watch")) {
		if err = s.serveWatch(w, q); err == nil {
			return
		}
	}
	var answer any
	if err == nil {
		answer, err = s.serve(q)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	code := http.StatusOK
	if q.created {
		code = http.StatusCreated
	}
	s.answer(w, q, code, answer)
}

// serve answers whatever has one answer.
func (s *Server) serve(q *request) (any, error) {
	switch one := q.name != ""; {
	case q.Method == http.MethodGet && one:
		return s.get(q.kind, q.namespace, q.name)
	case q.Method == http.MethodGet:
		return s.list(q)
	case q.Method == http.MethodPost && !one:
		return s.serveCreate(q)
	case q.Method == http.MethodPut && one:
		return s.serveUpdate(q)
	case q.Method == http.MethodPatch && one:
		return s.servePatch(q)
	case q.Method == http.MethodDelete && one:
		return s.serveDelete(q)
	case q.Method == http.MethodDelete:
		return s.serveDeleteAll(q)
	}
	return nil, apierrors.NewMethodNotSupported(q.kind.resource(), q.Method)
}

func isTrue(text string) bool { return text == "true" || text == "1" }

func (s *Server) parse(r *http.Request) (*request, error) {
	unknown := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the API server of scenarios does not serve " + r.Method + " " + r.URL.Path,
	}}
	gv, parts := splitPath(r.URL.Path)
	if len(parts) == 0 {
		return nil, unknown
	}
	q := &request{Request: r, dry: r.URL.Query().Get("dryRun") != ""}
	if len(parts) > 2 && parts[0] == "namespaces" && !(len(parts) == 3 && slices.Contains([]string{"status", "finalize"}, parts[2])) {
		q.namespace, parts = parts[1], parts[2:]
	}
	s.mu.Lock()
	q.kind = s.at(gv, parts[0])
	s.mu.Unlock()
	if len(parts) > 1 {
		q.name = parts[1]
	}
	if len(parts) > 2 {
		q.subresource = strings.Join(parts[2:], "/")
	}
	if q.kind == nil || !q.kind.has(q.subresource) || q.namespace != "" && !q.kind.namespaced {
		return nil, unknown
	}
	var err error
	if q.selection, err = newSelection(r.URL.Query().Get("labelSelector"), r.URL.Query().Get("fieldSelector")); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if err := q.selection.check(q.kind); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return q, nil
}

// splitPath takes group and version off a path; nothing is left of one that has none.
func splitPath(path string) (gv schema.GroupVersion, rest []string) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "api":
		return schema.GroupVersion{Version: parts[1]}, parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		return schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	}
	return gv, nil
}

// has reports whether a kind has a subresource; "" is the object itself.
func (k *kind) has(subresource string) bool {
	return subresource == "" || subresource == "status" && k.status || subresource == "scale" && k.scale != nil
}

// matches reports whether the request is about an object.
func (q *request) matches(at key, u *unstructured.Unstructured) bool {
	return u != nil && at.resource == q.kind.resource() && (q.namespace == "" || q.namespace == at.namespace) &&
		(q.name == "" || q.name == at.name) && q.selection.matches(u)
}

// body reads the object of the request.
func (q *request) body() (*unstructured.Unstructured, error) {
	u, err := q.anyBody()
	if err != nil {
		return nil, err
	}
	return u, q.place(u)
}

// anyBody reads an object in JSON, YAML or protobuf.
func (q *request) anyBody() (*unstructured.Unstructured, error) {
	data, err := io.ReadAll(q.Body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	u := &unstructured.Unstructured{}
	if strings.Contains(q.Header.Get("Content-Type"), "protobuf") {
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
	return u, nil
}

// place checks that an object is of the kind and namespace of the request.
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

func (s *Server) serveCreate(q *request) (any, error) {
	u, err := q.body()
	if err != nil {
		return nil, err
	}
	q.created = true
	return s.create(q.kind, u, q.write())
}

// serveUpdate replaces an object. A Lease is made when there is none.
func (s *Server) serveUpdate(q *request) (any, error) {
	if q.subresource == "scale" {
		return s.serveScale(q, func(*unstructured.Unstructured) (*unstructured.Unstructured, error) { return q.anyBody() })
	}
	u, err := q.body()
	if err != nil {
		return nil, err
	}
	w := q.write()
	w.replace = true
	got, err := s.update(q.kind, q.namespace, q.name, w, func(*unstructured.Unstructured) (*unstructured.Unstructured, error) { return u, nil })
	if apierrors.IsNotFound(err) && q.kind.name == "Lease" && u.GetResourceVersion() == "" {
		q.created = true
		return s.create(q.kind, u, w)
	}
	return got, err
}

// serveScale changes the replicas of an object to what change makes of its Scale.
func (s *Server) serveScale(q *request, change change) (any, error) {
	w := q.write()
	w.subresource = ""
	return s.update(q.kind, q.namespace, q.name, w, q.kind.scale.scaled(change))
}

func (s *Server) serveDelete(q *request) (any, error) {
	d := q.deletion()
	u, err := s.delete(q.kind, q.namespace, q.name, d)
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

// deletion reads the options of a deletion, which can lie in the body or in the query.
func (q *request) deletion() deletion {
	var options metav1.DeleteOptions
	if data, err := io.ReadAll(q.Body); err == nil && len(data) > 0 {
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, &options); err != nil {
			_ = json.Unmarshal(data, &options) // without kind and apiVersion; what cannot be read asks for nothing
		}
	}
	policy := q.URL.Query().Get("propagationPolicy")
	if options.PropagationPolicy != nil {
		policy = string(*options.PropagationPolicy)
	}
	return deletion{preconditions: options.Preconditions, orphan: policy == string(metav1.DeletePropagationOrphan), dry: q.dry || len(options.DryRun) > 0}
}

func (s *Server) serveDeleteAll(q *request) (any, error) {
	list, err := s.list(q)
	if err != nil {
		return nil, err
	}
	for i := range list.Items {
		u := &list.Items[i]
		if _, err := s.delete(q.kind, u.GetNamespace(), u.GetName(), q.deletion()); err != nil && !apierrors.IsNotFound(err) {
			return nil, err
		}
	}
	return list, nil
}

// answer writes an object, or a list; only its metadata if the client wants no more.
func (s *Server) answer(w http.ResponseWriter, q *request, code int, answer any) {
	partial := strings.Contains(q.Header.Get("Accept"), "as=PartialObjectMetadata")
	switch a := answer.(type) {
	case *unstructured.Unstructured:
		answer = q.shown(a, partial)
	case *unstructured.UnstructuredList:
		items := make([]any, len(a.Items))
		for i := range a.Items {
			items[i] = q.item(&a.Items[i], partial)
		}
		out := map[string]any{"apiVersion": a.GetAPIVersion(), "kind": a.GetKind(), "metadata": a.Object["metadata"], "items": items}
		if partial {
			out["apiVersion"], out["kind"] = "meta.k8s.io/v1", "PartialObjectMetadataList"
		}
		answer = out
	}
	writeJSON(w, code, answer)
}

// item is an object of a list. Those of built-in kinds do not say of what kind they are.
func (q *request) item(u *unstructured.Unstructured, partial bool) map[string]any {
	object := q.shown(u, partial)
	if q.kind.custom || partial {
		return object
	}
	object = maps.Clone(object)
	delete(object, "apiVersion")
	delete(object, "kind")
	return object
}

// shown is an object, or its subresource, in the version of the request.
func (q *request) shown(u *unstructured.Unstructured, partial bool) map[string]any {
	if q.subresource == "scale" {
		return q.kind.scale.shown(u).Object
	}
	if partial {
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

func writeError(w http.ResponseWriter, err error) {
	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		status = apierrors.NewInternalError(err)
	}
	out := status.Status()
	out.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	writeJSON(w, int(out.Code), out)
}
