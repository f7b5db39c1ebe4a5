package apiserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Start serves on a free port of the loopback address.
func (s *Server) Start() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("API server of the scenario: %w", err)
	}
	s.url = "http://" + listener.Addr().String()
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.http.Serve(listener) }() // it ends by Close, which is no error
	return nil
}

// Close ends the server and all connections.
func (s *Server) Close() error { return s.http.Close() }

// WriteKubeconfig writes a file by which clients find the server. Namespace is where
// they look when they name none.
func (s *Server) WriteKubeconfig(path, namespace string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["scenario"] = &clientcmdapi.Cluster{Server: s.url}
	config.AuthInfos["scenario"] = &clientcmdapi.AuthInfo{Token: "scenario"} // without one kubectl asks for a user
	config.Contexts["scenario"] = &clientcmdapi.Context{Cluster: "scenario", AuthInfo: "scenario", Namespace: namespace}
	config.CurrentContext = "scenario"
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// request is a request for objects: /apis/GROUP/VERSION/namespaces/NAMESPACE/PLURAL/NAME/SUBRESOURCE.
type request struct {
	*http.Request
	kind                         *kind
	namespace, name, subresource string
	selection                    selection
	dry                          bool
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.serveDiscovery(w, r) {
		return
	}
	req, err := s.parse(r)
	if err == nil {
		var answer any
		code := http.StatusOK
		switch {
		case r.Method == http.MethodGet && isTrue(r.URL.Query().Get("watch")):
			s.serveWatch(w, req)
			return
		case r.Method == http.MethodGet && req.name != "":
			answer, err = s.get(req.kind, req.namespace, req.name)
		case r.Method == http.MethodGet:
			answer = s.list(req)
		case r.Method == http.MethodPost && req.name == "":
			answer, err = s.serveCreate(req)
			code = http.StatusCreated
		case r.Method == http.MethodPut:
			answer, err = s.serveUpdate(req)
		case r.Method == http.MethodPatch:
			answer, err = s.servePatch(req)
		case r.Method == http.MethodDelete && req.name != "":
			answer, err = s.serveDelete(req)
		case r.Method == http.MethodDelete:
			answer, err = s.serveDeleteAll(req)
		default:
			err = apierrors.NewMethodNotSupported(req.kind.resource(), r.Method)
		}
		if err == nil {
			s.answer(w, req, code, answer)
			return
		}
	}
	writeError(w, err)
}

func isTrue(text string) bool { return text == "true" || text == "1" }

func (s *Server) parse(r *http.Request) (*request, error) {
	unknown := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
		Message: "the API server of scenarios does not serve " + r.Method + " " + r.URL.Path,
	}}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var gv schema.GroupVersion
	switch {
	case len(parts) > 2 && parts[0] == "api":
		gv, parts = schema.GroupVersion{Version: parts[1]}, parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		gv, parts = schema.GroupVersion{Group: parts[1], Version: parts[2]}, parts[3:]
	default:
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
	if q.kind == nil || q.subresource != "" && !(q.subresource == "status" && q.kind.status) {
		return nil, unknown
	}
	var err error
	if q.selection, err = newSelection(r.URL.Query().Get("labelSelector"), r.URL.Query().Get("fieldSelector")); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return q, nil
}

// matches reports whether the request is about an object.
func (q *request) matches(at key, u *unstructured.Unstructured) bool {
	return u != nil && at.resource == q.kind.resource() && (q.namespace == "" || q.namespace == at.namespace) &&
		(q.name == "" || q.name == at.name) && q.selection.matches(u)
}

func (s *Server) list(q *request) *unstructured.UnstructuredList {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": q.kind.String(), "kind": q.kind.name + "List"}}
	list.SetResourceVersion(fmt.Sprint(s.number))
	list.Items = []unstructured.Unstructured{}
	for _, at := range s.sortedKeys(q.kind.resource()) {
		if u := s.objects[at]; q.matches(at, u) {
			list.Items = append(list.Items, *u)
		}
	}
	return list
}

// body reads an object in JSON, YAML or protobuf.
func (q *request) body() (*unstructured.Unstructured, error) {
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
	return u, q.place(u)
}

// place checks that an object is of the kind and namespace of the request.
func (q *request) place(u *unstructured.Unstructured) error {
	if u.GetKind() != "" && u.GetKind() != q.kind.name {
		return apierrors.NewBadRequest(fmt.Sprintf("the object is a %s, the request is for a %s", u.GetKind(), q.kind.name))
	}
	if !q.kind.namespaced {
		u.SetNamespace("")
		return nil
	}
	if u.GetNamespace() != "" && u.GetNamespace() != q.namespace {
		return apierrors.NewBadRequest(fmt.Sprintf("the namespace of the object is %s, that of the request %s", u.GetNamespace(), q.namespace))
	}
	u.SetNamespace(q.namespace)
	return nil
}

func (s *Server) serveCreate(q *request) (any, error) {
	u, err := q.body()
	if err != nil {
		return nil, err
	}
	return s.create(q.kind, u, q.dry)
}

func (s *Server) serveUpdate(q *request) (any, error) {
	u, err := q.body()
	if err != nil {
		return nil, err
	}
	return s.update(q.kind, q.namespace, q.name, q.subresource, q.dry, func(*unstructured.Unstructured) (*unstructured.Unstructured, error) { return u, nil })
}

func (s *Server) serveDelete(q *request) (any, error) {
	var options metav1.DeleteOptions
	if data, err := io.ReadAll(q.Body); err == nil && len(data) > 0 {
		if _, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, &options); err != nil {
			_ = json.Unmarshal(data, &options) // without kind and apiVersion; what cannot be read asks for nothing
		}
	}
	u, err := s.delete(q.kind, q.namespace, q.name, options.Preconditions)
	if err != nil {
		return nil, err
	}
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess,
		Details: &metav1.StatusDetails{Name: q.name, Group: q.kind.Group, Kind: q.kind.plural, UID: u.GetUID()},
	}, nil
}

func (s *Server) serveDeleteAll(q *request) (any, error) {
	list := s.list(q)
	for i := range list.Items {
		u := &list.Items[i]
		if _, err := s.delete(q.kind, u.GetNamespace(), u.GetName(), nil); err != nil && !apierrors.IsNotFound(err) {
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
			items[i] = q.shown(&a.Items[i], partial)
		}
		out := map[string]any{"apiVersion": a.GetAPIVersion(), "kind": a.GetKind(), "metadata": a.Object["metadata"], "items": items}
		if partial {
			out["apiVersion"], out["kind"] = "meta.k8s.io/v1", "PartialObjectMetadataList"
		}
		answer = out
	}
	writeJSON(w, code, answer)
}

// shown is an object in the version of the request.
func (q *request) shown(u *unstructured.Unstructured, partial bool) map[string]any {
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
