package kube

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/client-go/dynamic"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
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
	unfenced *rest.Config // for the Lease, and for reviews, which change nothing
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
