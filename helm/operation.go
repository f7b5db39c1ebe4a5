package helm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"addon-operator/helm/kinds"
)

// operation is one Apply or Uninstall: everything that must not be shared with other operations,
// cheap to make, and bound to one context. Helm's actions change what they are given, so nothing of
// it is used twice. One goroutine uses it; its transport and log may be used by several.
type operation struct {
	ctx          context.Context
	home         *home
	release      string
	log          *slog.Logger
	transport    *boundTransport
	capabilities *chartutil.Capabilities
	away         []*kinds.AwayError                     // of the same answer
	clients      map[schema.GroupVersion]rest.Interface // by group and version, made when first needed
	cluster      *cluster                               // of the action that runs or ran last
	// merge3 compares custom resources with what is in the cluster, too. Helm only
	// compares their old and new manifests, which would leave drift in them.
	merge3 bool
	// unmarked leaves MarkLabel and Options.Labels out: a search for drift must not report their absence on objects
	// that an older operator, or Helm, has made. They get them with their next revision.
	unmarked   bool
	giveUp     <-chan struct{}                    // Module.GiveUp
	unserved   []Object                           // objects of older manifests, whose kinds the API server has in no version
	orphaned   func(release string) (bool, error) // Module.Orphaned
	taken      map[owner]bool                     // whether objects of a release are taken over
	purge      bool                               // it is a Purge
	keepsData  bool                               // objects that hold data are not deleted
	uninstalls string                             // the newest manifest of the release that is uninstalled
	secrets    []string                           // values of Secrets that no error may show
}

// begin starts an operation: it reads the kinds of the API server, which templates may ask
// about, and makes a transport that ends with ctx.
func (h *home) begin(ctx context.Context, name string) (*operation, error) {
	op := &operation{
		ctx:       ctx,
		home:      h,
		release:   name,
		log:       h.options.Log.With("release", name),
		transport: &boundTransport{ctx: ctx, next: h.transport},
		taken:     map[owner]bool{},
	}
	var err error
	op.capabilities, op.away, err = h.kinds.Capabilities()
	if err != nil {
		return nil, classify(ctx, name, nil, err)
	}
	return op, nil
}

// us is the owner that the annotations of this release's objects name.
func (op *operation) us() owner { return owner{op.release, op.home.options.Namespace} }

// config is a REST configuration whose requests end with the operation.
func (op *operation) config() *rest.Config {
	cfg := op.home.over(op.transport)
	cfg.WarningHandler = warnings{op.log}
	return cfg
}

// clientFor returns the client of the operation for an API group. Helm makes one for each object,
// with all that belongs to it; a chart has hundreds of objects in a few groups.
func (op *operation) clientFor(gv schema.GroupVersion) (rest.Interface, error) {
	if client, ok := op.clients[gv]; ok {
		return client, nil
	}
	cfg := op.config()
	cfg.APIPath = "/apis"
	if gv.Group == "" {
		cfg.APIPath = "/api"
	}
	cfg.GroupVersion = &gv
	cfg.ContentConfig.GroupVersion = &gv
	cfg.NegotiatedSerializer = resource.UnstructuredPlusDefaultContentConfig().NegotiatedSerializer
	client, err := rest.RESTClientForConfigAndClient(cfg, &http.Client{Transport: op.transport})
	if err != nil {
		return nil, fmt.Errorf("client for %s: %w", gv, err)
	}
	if op.clients == nil {
		op.clients = map[schema.GroupVersion]rest.Interface{}
	}
	op.clients[gv] = client
	return client, nil
}

// store makes the storage driver over the state that was just read. Its requests do not end with
// the operation: neither its context, which is never cancelled, nor its client, which is that of
// the home and does not use the transport of the operation.
func (op *operation) store(state State) *store {
	return &store{op: op, ctx: context.WithoutCancel(op.ctx), state: state, bodies: map[string]*release.Release{}}
}

// operator is the namespace whose records these are, where those of other operators may lie; else empty.
func (op *operation) operator() string {
	if op.home.isRoot() {
		return ""
	}
	return op.home.homes.root.options.Namespace
}

// configuration makes what Helm's actions work with: new for each action,
// because actions write into it.
func (op *operation) configuration(s *store) (*action.Configuration, *cluster) {
	client := kube.New(getter{op})
	client.Namespace = op.home.options.Namespace
	client.Log = op.debug
	op.cluster = &cluster{Client: client, op: op}
	releases := storage.Init(s)
	releases.Log, releases.MaxHistory = op.debug, op.home.options.HistoryMax
	return &action.Configuration{
		RESTClientGetter: getter{op},
		Releases:         releases,
		KubeClient:       op.cluster,
		Capabilities:     op.capabilities,
		Log:              op.debug,
		HookOutputFunc:   func(string, string, string) io.Writer { return io.Discard },
	}, op.cluster
}

// orRefused is the error of an action: that a hook would replace what is not its own, else what Helm returns. Helm
// joins errors as text, so the cause is kept in the cluster.
func (op *operation) orRefused(err error) error {
	if err != nil && op.cluster != nil && op.cluster.refused != nil {
		return op.cluster.refused
	}
	return err
}

// debug takes Helm's own log lines. They are formatted only if the level is enabled: there are
// several for each object.
func (op *operation) debug(format string, args ...any) {
	if op.log.Enabled(op.ctx, slog.LevelDebug) {
		op.log.Debug(strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}

// getter gives Helm the shared parts, and connections that end with the
// operation.
type getter struct{ op *operation }

var (
	_ action.RESTClientGetter            = getter{}
	_ genericclioptions.RESTClientGetter = getter{}
)

// ToRESTConfig returns a configuration bound to the operation.
func (g getter) ToRESTConfig() (*rest.Config, error) { return g.op.config(), nil }

// ToDiscoveryClient is not called: the capabilities are known.
func (g getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return nil, errors.ErrUnsupported
}

// ToRESTMapper is not called: Build maps kinds itself.
func (g getter) ToRESTMapper() (meta.RESTMapper, error) { return nil, errors.ErrUnsupported }

// ToRawKubeConfigLoader returns the namespace; there is no kubeconfig here.
func (g getter) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	of := clientcmdapi.Context{Namespace: g.op.home.options.Namespace}
	return clientcmd.NewDefaultClientConfig(clientcmdapi.Config{}, &clientcmd.ConfigOverrides{Context: of})
}

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
