package helm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/dynamic"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"addon-operator/helm/charts"
	"addon-operator/helm/kinds"
)

// defaultTimeout limits Helm hooks when Options.Timeout is zero.
const defaultTimeout = 5 * time.Minute

// Options configure a Client. Config and Namespace are required.
type Options struct {
	Config     *rest.Config      // how to reach the API server; its rate limit is not used, Helm's requests are sequential
	Namespace  string            // of the operator, its releases, and their objects that name none (H1); modules may name another one
	Driver     Driver            // where the records of releases are; empty means Secrets
	HistoryMax int               // revisions kept for each release (H7); 0 keeps all
	Timeout    time.Duration     // limit of one Helm hook (H7); 0 means 5 minutes
	Labels     map[string]string // put on every object's metadata, without replacing what the chart sets (H10)
	Log        *slog.Logger      // nil discards; lines of Helm itself are at debug
	Watcher    Watcher           // for Client.Watch; nil: every Apply reads its state from the API server
	Presence   Presence          // the same for objects; nil: every Apply asks whether they exist
	Notify     func(text string) // shows people a warning about objects that stay, as an Event; nil: it is only in the log
}

// Client applies and removes releases. All modules share one: it holds one set of connections, one
// discovery, one RESTMapper, the loaded charts and the last renders. It is safe for concurrent use;
// operations on the same release wait for each other (H18). Each namespace with releases has a
// home, which does the work; the methods of Client find it.
type Client struct {
	root  *home  // the operator's namespace
	homes *homes // this one, and the others that have releases
}

// UsualLabels are the Labels of the operator: what selectors of other tools find its objects by (H10).
func UsualLabels() map[string]string { return map[string]string{"heritage": "addon-operator"} }

// New makes a Client. It makes no request.
func New(o Options) (*Client, error) {
	if o.Config == nil || o.Namespace == "" {
		return nil, errors.New("helm: Options.Config and Options.Namespace are required")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Timeout = cmp.Or(o.Timeout, defaultTimeout)
	c, err := connect(o)
	if err != nil {
		return nil, err
	}
	h := &homes{charts: &charts.Cache{}, build: buildOf(), locks: &locks{}}
	if h.root, err = newHome(o, c, h); err != nil {
		return nil, err
	}
	h.all = map[string]*home{o.Namespace: h.root}
	h.inputs = &inputs{objects: h.root.objects, log: o.Log}
	return &Client{root: h.root, homes: h}, nil
}

// Close writes what the next start needs in order not to render, and would be written a moment later.
func (c *Client) Close(ctx context.Context) { c.homes.inputs.write(ctx) }

// Releases lists the names of all releases in the operator's namespace, sorted, whatever their
// status and whichever program has installed them: see Ours. Of those in other namespaces it lists
// what belongs to modules (H20). It costs one request for each namespace, and the next Apply of each release needs
// none: a reload begins with it.
func (c *Client) Releases(ctx context.Context) ([]string, error) {
	all, err := c.homes.list(ctx)
	if err != nil {
		return nil, classify(ctx, "", nil, err)
	}
	return all, nil
}

// ResetDiscovery makes the next operation read the kinds of the API server again. It is called
// after CRDs were installed (M6).
func (c *Client) ResetDiscovery() { c.root.kinds.Forget() }

// SubchartCRDs returns the definitions in crds/ of the subcharts that the values of a module
// enable. It has no error: a chart that does not load has none, and Apply returns the reason.
func (c *Client) SubchartCRDs(m Module) []charts.File {
	if !charts.HasSubcharts(m.Dir) {
		return nil
	}
	loaded, err := c.homes.charts.Load(m.chart())
	if err != nil {
		return nil
	}
	files, _ := loaded.SubchartCRDs(m.Values)
	return files
}

// Charts returns the cache of loaded charts. Checks of values share it, so that they see the chart
// that the next Apply installs.
func (c *Client) Charts() *charts.Cache { return c.homes.charts }

// locks holds one mutex for each release name. Homes share it: a module has one release, whatever
// its namespace. A mutex is never removed, because another goroutine may be waiting for it. Plans
// have locks of their own (dryRun), so they do not wait for a long Apply.
type locks struct{ byName sync.Map }

func (l *locks) lock(name string) (unlock func()) {
	found, _ := l.byName.LoadOrStore(name, &sync.Mutex{})
	m, _ := found.(*sync.Mutex)
	m.Lock()
	return m.Unlock
}

// connection is how all operations reach the API server, whatever their namespace.
type connection struct {
	base      *rest.Config      // address, limits and user agent; no credentials: see over
	transport http.RoundTripper // credentials, TLS and connections, shared by everything
	kinds     *kinds.Server
	// These are bound to no operation. They go through transport, or, in a dry run, through one
	// that lets no write through.
	metadata metadata.Interface
	dynamic  dynamic.Interface
}

// connect makes the clients that are not bound to one operation; each of their
// calls takes its own context.
func connect(o Options) (*connection, error) {
	shared, err := rest.HTTPClientFor(o.Config)
	if err != nil {
		return nil, fmt.Errorf("helm: make an HTTP client: %w", err)
	}
	address, _, err := rest.DefaultServerUrlFor(o.Config)
	if err != nil {
		return nil, fmt.Errorf("helm: address of the API server: %w", err)
	}
	next := shared.Transport
	if next == nil { // a configuration without TLS and credentials
		next = http.DefaultTransport
	}
	c := &connection{transport: limitTransport{next}, base: &rest.Config{
		Host:           address.String(),
		UserAgent:      o.Config.UserAgent,
		QPS:            -1, // one client for all modules would queue behind client-go's 5 requests per second
		WarningHandler: warnings{o.Log},
	}}
	cfg := c.over(c.transport)
	if c.kinds, err = kinds.New(cfg); err != nil {
		return nil, fmt.Errorf("helm: discovery client: %w", err)
	}
	if c.metadata, err = metadata.NewForConfig(metadata.ConfigFor(cfg)); err != nil {
		return nil, fmt.Errorf("helm: metadata client: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfig(cfg); err != nil {
		return nil, fmt.Errorf("helm: dynamic client: %w", err)
	}
	return c, nil
}

// over returns a REST configuration that sends its requests through t. It has
// no credentials of its own: the shared transport adds them.
func (c *connection) over(t http.RoundTripper) *rest.Config {
	cfg := rest.CopyConfig(c.base)
	cfg.Transport = t
	return cfg
}

// core makes a client, through t, for Secrets and ConfigMaps. It uses protobuf, which only built-in
// kinds have: JSON encodes the body of a Secret in base64 once more.
func (c *connection) core(t http.RoundTripper) (typedcorev1.CoreV1Interface, error) {
	cfg := c.over(t)
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	core, err := typedcorev1.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("helm: core client: %w", err)
	}
	return core, nil
}

// warnings logs the warnings of the API server (deprecated versions, suspicious fields).
type warnings struct{ log *slog.Logger }

// HandleWarningHeader implements rest.WarningHandler.
func (w warnings) HandleWarningHeader(code int, _, text string) {
	const persistent = 299 // the only code Kubernetes uses
	if code == persistent && text != "" {
		w.log.Warn("the API server returned a warning", "err", text) // the log repeats an err at growing intervals
	}
}
