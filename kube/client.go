package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
)

// These limits apply when the user sets none. They are far above those of the library (5 and 10),
// with which a converge would spend most of its time waiting for its own rate limit.
const (
	DefaultQPS       = 100
	DefaultBurst     = 200
	defaultUserAgent = "addon-operator"
)

// Options are the address of the API server, and how to connect to it.
type Options struct {
	Kubeconfig string       // path, or several separated as in PATH; empty: the service account of the pod
	Context    string       // context of the kubeconfig; empty: its current one
	Server     string       // URL that replaces the one found; empty: keep
	Config     *rest.Config // in place of all above: an API server of the same process; nil: none
	QPS        float32      // requests per second of each client; 0: DefaultQPS, negative: no limit
	Burst      int          // 0: DefaultBurst
	UserAgent  string       // empty: addon-operator
	Log        *slog.Logger // nil: discard
	Fence      *Fence       // what every write must pass; nil: none
	Watches    Watches      // observes the failures of watches; may be nil
	// WentBack is called when a watch finds that the API server has gone back to an earlier state (P14), perhaps by
	// several watches and again and again; it must return at once. The watch stops at the old state. It may be nil.
	WentBack func(err error)
}

// Client holds the connections to one API server. It is safe for concurrent use, and nothing in it
// changes after Connect but what kinds remembers.
type Client struct {
	config   *rest.Config // with the fence in its transport; requests of clients made of it pass it, too
	core     corev1.CoreV1Interface
	dynamic  dynamic.Interface
	metadata metadata.Interface
	kinds    *kinds
	// definitions and watcher are shared by all clients that are made of this one.
	definitions *kindChanges
	watcher     *Watcher
	log         *slog.Logger
	watches     Watches         // never nil
	wentBack    func(err error) // Options.WentBack

	// Only the client of Connect has these. The Lease cannot pass the fence that it opens.
	fence    *Fence       // nil: writes are not fenced
	unfenced *rest.Config // for the Lease, for reviews, which change nothing, and for the label of an own Pod
}

// Connect makes a client. It makes no request: if the API server is away, the first call returns an
// error that names it.
func Connect(o Options) (*Client, error) {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	config, err := restConfig(o)
	if err != nil {
		return nil, err
	}
	config.QPS = cmp.Or(o.QPS, DefaultQPS)
	config.Burst = cmp.Or(o.Burst, DefaultBurst)
	config.UserAgent = cmp.Or(o.UserAgent, defaultUserAgent)
	config.WarningHandlerWithContext = warnings{log}
	unfenced := rest.CopyConfig(config) // before guard changes the original
	if o.Fence != nil {
		o.Fence.guard(config)
	}
	c, err := newClient(config, log)
	if err != nil {
		return nil, err
	}
	c.fence, c.unfenced, c.wentBack = o.Fence, unfenced, o.WentBack
	if o.Watches != nil {
		c.watches = o.Watches
	}
	return c, nil
}

// newClient makes a Client whose clients share one pool of connections, but not their rate: each
// has a rate limiter of its own with the QPS and Burst of config.
func newClient(config *rest.Config, log *slog.Logger) (*Client, error) {
	watched := rest.CopyConfig(config)
	watched.Wrap(newWatching)
	transport, err := rest.HTTPClientFor(watched)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	// Protobuf is for typed objects only: unstructured ones are decoded from JSON.
	protobuf := rest.CopyConfig(config)
	protobuf.ContentType = "application/vnd.kubernetes.protobuf"
	protobuf.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"

	core, errCore := corev1.NewForConfigAndClient(protobuf, transport)
	dyn, errDynamic := dynamic.NewForConfigAndClient(config, transport)
	meta, errMetadata := metadata.NewForConfigAndClient(metadata.ConfigFor(config), transport)
	if err := errors.Join(errCore, errDynamic, errMetadata); err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	c := &Client{config: config, core: core, dynamic: dyn, metadata: meta, kinds: &kinds{list: discoveryOf(config, transport)}, log: log, watches: unwatched{}}
	c.definitions, c.watcher = newKindChanges(), NewWatcher(c, log)
	return c, nil
}

// Limits are those of a client of its own.
type Limits struct {
	QPS     float32       // requests per second; 0: DefaultQPS, negative: no limit
	Burst   int           // 0: DefaultBurst
	Timeout time.Duration // of one request; 0: none
}

// WithLimits makes a client with limits of its own, so that its requests do not delay those of c,
// nor the other way round (K6). Both share the discovered kinds, and pass the same Fence. It
// cannot make a Lease.
func (c *Client) WithLimits(l Limits) (*Client, error) {
	config := rest.CopyConfig(c.config)
	config.QPS = cmp.Or(l.QPS, DefaultQPS)
	config.Burst = cmp.Or(l.Burst, DefaultBurst)
	config.Timeout = l.Timeout
	limited, err := newClient(config, c.log)
	if err != nil {
		return nil, err
	}
	limited.kinds, limited.definitions, limited.watcher = c.kinds, c.definitions, c.watcher
	return limited, nil
}

// restConfig finds the API server. Without a kubeconfig it is the one of the
// pod's service account; a context then makes no sense and is refused.
func restConfig(o Options) (*rest.Config, error) {
	if o.Config != nil {
		return rest.CopyConfig(o.Config), nil
	}
	if o.Kubeconfig == "" {
		if o.Context != "" {
			return nil, fmt.Errorf("context %q is set, but no kubeconfig that contains it", o.Context)
		}
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("no kubeconfig is set and this is not a pod with a service account: %w", err)
		}
		if o.Server != "" {
			config.Host = o.Server
		}
		return config, nil
	}
	found, err := readKubeconfig(o)
	return found.config, err
}

// RESTConfig returns a copy of the configuration, for clients of other packages. What they write
// passes the Fence, too.
func (c *Client) RESTConfig() *rest.Config { return rest.CopyConfig(c.config) }

// Unfenced is RESTConfig without the Fence: for what a follower writes, which is nothing but about itself.
func (c *Client) Unfenced() *rest.Config { return rest.CopyConfig(c.unfenced) }

// watchingKey is the key of a context of requests to list and to watch.
type watchingKey struct{}

// noAnswer hides from the libraries why a request to list or to watch got no answer. They would retry it for ten
// seconds, and in the end take a watch that was never opened for an empty one: behind a load balancer, an API server
// that is away would go unnoticed.
type noAnswer struct{ cause error }

// Error implements error.
func (noAnswer) Error() string { return "no answer" }

// watching is a transport for requests to list and to watch.
type watching struct{ next http.RoundTripper }

func newWatching(next http.RoundTripper) http.RoundTripper { return watching{next} }

// RoundTrip implements http.RoundTripper.
func (w watching) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := w.next.RoundTrip(request)
	if err != nil && request.Context().Value(watchingKey{}) != nil {
		err = noAnswer{err}
	}
	return response, err
}

// WrappedRoundTripper lets the libraries find the transport below.
func (w watching) WrappedRoundTripper() http.RoundTripper { return w.next }

// retryOnConflict calls write up to ten times, over a few seconds, while the API server answers that another writer was
// faster, and returns its last error. The function of the library is unusable: before client-go
// 0.37 it takes the end of a context in an error of write for its own and reports
// success.
func retryOnConflict(write func() error) error {
	var last error
	backoff := wait.Backoff{Duration: 5 * time.Millisecond, Factor: 2, Jitter: 0.5, Steps: 10}
	faster := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	_ = retry.OnError(backoff, faster, func() error {
		last = write()
		return last
	})
	return last
}

// RedirectKlog redirects the log of the Kubernetes libraries to log, as debug: the caller that failed reports an
// error, too, with more context. V(6) has a line for each request. V(7) and above would show headers and bodies, with
// whole Secrets among them (J9).
//
// The libraries' logger is global to the process: call this once, from main,
// before the first goroutine.
func RedirectKlog(log *slog.Logger) { klog.SetSlogLogger(slog.New(debugOnly{log.Handler()})) }

// debugOnly passes all records on as debug.
type debugOnly struct{ slog.Handler }

func (h debugOnly) Enabled(ctx context.Context, level slog.Level) bool {
	const requests = -6 // klog's V(6)
	return level >= requests && h.Handler.Enabled(ctx, slog.LevelDebug)
}

func (h debugOnly) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return h.Handler.Handle(ctx, r)
}

func (h debugOnly) WithAttrs(attrs []slog.Attr) slog.Handler {
	return debugOnly{h.Handler.WithAttrs(attrs)}
}

func (h debugOnly) WithGroup(name string) slog.Handler { return debugOnly{h.Handler.WithGroup(name)} }

// maxWarnings is how many warnings are logged in a context of WithAbout and those that are made of it.
const maxWarnings = 20

type aboutKey struct{}

// about says whose request the API server warns about.
type about struct {
	attributes []any
	count      *atomic.Int64
}

// WithAbout returns a context in which warnings of the API server are logged with more attributes: whose request it
// is.
func WithAbout(ctx context.Context, attributes ...any) context.Context {
	a, ok := ctx.Value(aboutKey{}).(about)
	if !ok {
		a.count = &atomic.Int64{}
	}
	a.attributes = slices.Concat(a.attributes, attributes)
	return context.WithValue(ctx, aboutKey{}, a)
}

// warnings logs the warnings of the API server (deprecated versions, unknown fields), with the attribute err: they
// come with each request, and the log repeats what has one at growing intervals (J13).
type warnings struct{ log *slog.Logger }

var _ rest.WarningHandlerWithContext = warnings{}

// HandleWarningHeaderWithContext is called for each Warning header; 299 is the
// only code that Kubernetes defines.
func (w warnings) HandleWarningHeaderWithContext(ctx context.Context, code int, _, text string) {
	a, ok := ctx.Value(aboutKey{}).(about)
	if code == 299 && text != "" && (!ok || a.count.Add(1) <= maxWarnings) {
		w.log.WarnContext(ctx, "warning of the API server", append(slices.Clone(a.attributes), "err", text)...)
	}
}

// Target is the API server that a kubeconfig leads to. Kubeconfig is a path, or several separated
// as in PATH, Server a URL.
type Target struct {
	Kubeconfig, Context, Server string
	// Pin is a kubeconfig without credentials: where it comes first in $KUBECONFIG, before those
	// above, kubectl uses the same context and server.
	Pin []byte
}

// FindTarget names the API server that Connect would connect to; without a kubeconfig in the
// options it is that of kubectl: of $KUBECONFIG, or of the home directory.
func FindTarget(o Options) (Target, error) {
	found, err := readKubeconfig(o)
	t := Target{Kubeconfig: found.files, Context: found.context}
	if found.merged != nil && t.Context == "" {
		return t, fmt.Errorf("kubeconfig %s has no current context", t.Kubeconfig)
	}
	if err != nil {
		return t, err
	}
	t.Server = found.config.Host
	pin := api.NewConfig()
	pin.CurrentContext = t.Context
	// Of several files the first one that has a cluster counts for all of its fields.
	if context := found.merged.Contexts[t.Context]; o.Server != "" && context != nil {
		cluster := api.NewCluster()
		if known := found.merged.Clusters[context.Cluster]; known != nil {
			cluster = known.DeepCopy()
		}
		cluster.Server, cluster.TLSServerName = o.Server, "" // that name is one of the other server
		pin.Clusters[context.Cluster] = cluster
	}
	t.Pin, err = clientcmd.Write(*pin)
	return t, err
}

// PersonConfig is the configuration of a person at a terminal, found as kubectl finds it. The
// namespace is that of the context, empty when it has none. A service account is never used: a
// person who works inside a Pod that has one means another cluster.
func PersonConfig(o Options) (config *rest.Config, namespace string, err error) {
	found, err := readKubeconfig(o)
	if err != nil {
		return nil, "", err
	}
	if context, ok := found.merged.Contexts[found.context]; ok {
		namespace = context.Namespace
	}
	found.config.UserAgent = cmp.Or(o.UserAgent, defaultUserAgent)
	return found.config, namespace, nil
}

// settings are the contents of one or several files, and the resulting configuration.
type settings struct {
	files   string // separated as in PATH
	context string // empty: none is current
	merged  *api.Config
	config  *rest.Config
}

// readKubeconfig reads the files as kubectl does: those of o.Kubeconfig or else of $KUBECONFIG,
// which may be several separated as in PATH, of which missing ones are skipped, or else
// ~/.kube/config. Its errors name the files, which are set with an error, too.
func readKubeconfig(o Options) (settings, error) {
	// Not ClientConfig of deferred rules: these would fall back to the service account of a Pod.
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if o.Kubeconfig != "" {
		rules.MigrationRules = nil // they look at the home directory
		rules.Precedence = filepath.SplitList(o.Kubeconfig)
		if len(rules.Precedence) == 1 {
			rules.ExplicitPath = o.Kubeconfig // it must exist
		}
	}
	k := settings{files: strings.Join(rules.Precedence, string(filepath.ListSeparator)), context: o.Context}
	merged, err := rules.Load()
	if err != nil {
		return k, fmt.Errorf("kubeconfig %s: %w", k.files, err)
	}
	if len(merged.Clusters) == 0 && o.Server == "" {
		return k, fmt.Errorf("kubeconfig %s: it does not exist or contains no cluster; set --kubeconfig or $KUBECONFIG to another file", k.files)
	}
	k.merged, k.context = merged, cmp.Or(o.Context, merged.CurrentContext)
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	overrides.ClusterInfo.Server = o.Server
	if k.config, err = clientcmd.NewNonInteractiveClientConfig(*merged, k.context, overrides, rules).ClientConfig(); err != nil {
		return k, fmt.Errorf("kubeconfig %s: %w", k.files, err)
	}
	return k, nil
}
