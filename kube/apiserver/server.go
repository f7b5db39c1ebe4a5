package apiserver

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"addon-operator/kube"
)

// Server is an API server in memory. Create it with New or NewOf. Its methods are safe for
// concurrent use, but for Start, which comes first.
type Server struct {
	store    *store
	version  version.Info
	endpoint endpoint
	serving  atomic.Int64 // requests in progress
}

// New makes a server that reports the given version of Kubernetes, such as v1.33.0. The version
// changes nothing else: it serves the same kinds in each.
func New(kubernetes string) *Server {
	major, rest, _ := strings.Cut(strings.TrimPrefix(kubernetes, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	s := &Server{
		store:   newStore(builtinKinds()),
		version: version.Info{Major: major, Minor: minor, GitVersion: kubernetes, Platform: "linux/amd64"},
	}
	for _, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system"} { // as a kube-apiserver
		s.EnsureNamespace(name)
	}
	return s
}

// NewOf makes a server without objects that serves the kinds of another one, without their
// subresources, and reports its version. Kinds that are unknown to the other one, because a server does not answer,
// are unknown here, too (P13).
func NewOf(other kube.Discovery) *Server {
	var served kinds
	for _, list := range other.Kinds {
		for _, k := range listedKinds(list) {
			if served.at(k.GroupVersion, k.plural) == nil {
				served.all = append(served.all, k)
			}
		}
	}
	s := &Server{store: newStore(served.all), version: other.Version}
	s.store.kinds.away = other.Away
	return s
}

// EnsureNamespace makes a namespace, unless it is there.
func (s *Server) EnsureNamespace(name string) {
	namespace := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	_, _ = s.store.create(s.store.served().find("v1", "Namespace"), namespace, write{}) // the error is that it exists
}

// Apply creates an object or replaces it, status and all, as no client could: the state that a
// scenario begins with, and what controllers would do. It checks no fields and calls no observer. A
// namespace that is not there is created. What changes nothing is no change. An object without apiVersion is of the
// first kind of its name. The errors are for authors of scenarios, and name the fix.
func (s *Server) Apply(object map[string]any) error {
	u := &unstructured.Unstructured{Object: object}
	u = u.DeepCopy()
	if u.GetKind() == "" || u.GetName() == "" {
		return fmt.Errorf("an object needs kind and metadata.name; it has %q, %q", u.GetKind(), u.GetName())
	}
	k := s.store.served().find(u.GetAPIVersion(), u.GetKind())
	if k == nil {
		name := strings.TrimSpace(u.GetAPIVersion() + " " + u.GetKind())
		return fmt.Errorf("%s: there is no such kind; add its CustomResourceDefinition before it", name)
	}
	switch {
	case k.namespaced && u.GetNamespace() == "":
		return fmt.Errorf("%s %s: it is namespaced; add metadata.namespace", u.GetKind(), u.GetName())
	case !k.namespaced && u.GetNamespace() != "":
		return fmt.Errorf("%s %s: it is cluster-wide; remove metadata.namespace", u.GetKind(), u.GetName())
	case k.namespaced:
		s.EnsureNamespace(u.GetNamespace())
	}
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	key := key{k.resource(), u.GetNamespace(), u.GetName()}
	s.store.complete(k, u, s.store.objects[key])
	s.store.commit(key, u)
	return nil
}

// Object is a copy of an object without managedFields, nil when there is none or no such kind.
func (s *Server) Object(apiVersion, word, namespace, name string) map[string]any {
	k := s.store.served().find(apiVersion, word)
	if k == nil {
		return nil
	}
	u, err := s.store.get(k, namespace, name)
	if err != nil {
		return nil
	}
	return withoutManagers(u).Object
}

// Delete removes an object and reports whether there was one. As for a client, a finalizer may hold
// it. The error is that of an unknown kind.
func (s *Server) Delete(apiVersion, word, namespace, name string) (bool, error) {
	k := s.store.served().find(apiVersion, word)
	if k == nil {
		return false, fmt.Errorf("%s %s: there is no such kind", apiVersion, word)
	}
	_, err := s.store.delete(k, namespace, name, deletion{})
	return !apierrors.IsNotFound(err), nil
}

// OnGone calls f with each object that is removed from now on, also as garbage of another one, in
// the goroutine of the request that removes it. f must return at once and may not call the server,
// whose lock is held. A second call replaces the first f; so it is with OnRequest and
// OnUnknownField.
func (s *Server) OnGone(f func(object map[string]any)) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.gone = f
}

// Busy reports whether a request of a client is in progress, other than a watch.
func (s *Server) Busy() bool { return s.serving.Load() > 0 }

// OnRequest calls f with each later request of a client for objects before it is answered,
// one at a time. An error of f refuses it. f may not call the server.
func (s *Server) OnRequest(f func(Request) error) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.review = f
}

// Objects are copies of all objects, sorted by kind, namespace and name.
func (s *Server) Objects() (list []map[string]any) {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	for _, at := range s.store.keys(func(key, *unstructured.Unstructured) bool { return true }) {
		list = append(list, withoutManagers(s.store.objects[at]).Object)
	}
	return list
}

// endpoint is where a server is reached from other processes, since Start.
type endpoint struct {
	http        *http.Server // nil: it is not started
	url         string
	token       string // what clients have to show
	certificate []byte // by which they know it, in DER
}

// Start serves TLS on a free port of the loopback interface, with a certificate of its own, and only requests that
// carry its token: other users of the machine can connect to the port, too. WriteKubeconfig writes both. Clients of
// the same process (RESTConfig) need neither.
func (s *Server) Start() error {
	certificate, err := newCertificate()
	if err != nil {
		return fmt.Errorf("API server in memory: %w", err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13})
	if err != nil {
		return fmt.Errorf("API server in memory: %w", err)
	}
	s.endpoint = endpoint{url: "https://" + listener.Addr().String(), token: rand.Text(), certificate: certificate.Certificate[0]}
	s.endpoint.http = &http.Server{Handler: authenticated(s.endpoint.token, s), ReadHeaderTimeout: time.Minute}
	go func() { _ = s.endpoint.http.Serve(listener) }() // Close ends it, which is no failure
	return nil
}

// URL is where a started server serves.
func (s *Server) URL() string { return s.endpoint.url }

// Close ends all connections, if the server is started.
func (s *Server) Close() error {
	if s.endpoint.http == nil {
		return nil
	}
	return s.endpoint.http.Close()
}

// newCertificate makes one that is its own authority: clients that get it from the kubeconfig trust this one
// certificate.
func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "API server in memory"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// authenticated lets only requests with a token through.
func authenticated(token string, next http.Handler) http.Handler {
	want := []byte("Bearer " + token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			writeError(w, apierrors.NewUnauthorized("Unauthorized"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// WriteKubeconfig writes a file by which clients find a started server. Only its owner may read it. Namespace is where
// clients look when they name none.
func (s *Server) WriteKubeconfig(path, namespace string) error {
	const name = "memory"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server: s.endpoint.url, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.endpoint.certificate}),
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: s.endpoint.token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, path)
}

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
