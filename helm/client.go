package helm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
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
	Watcher    Watcher           // for Client.Watch; nil: every Apply asks for all it must know
	Presence   Presence          // the same for objects; nil: every Apply asks whether they exist
}

// Client applies and removes releases. All modules share one: it holds one set
// of connections, one discovery, one RESTMapper, the loaded charts and the last
// renders. It is safe for concurrent use; operations on the same release wait
// for each other (H18).
type Client struct {
	options   Options
	base      *rest.Config      // address only; see bound
	transport http.RoundTripper // credentials, TLS and connections, shared by everything
	kinds     *kinds.Server
	records   *records
	encoder   encoder
	objects   recordObjects // the records of releases
	metadata  metadata.Interface
	dynamic   dynamic.Interface
	charts    *charts.Cache
	renders   renders
	repeats   repeats
	build     string // of the operator
	locks     *locks
	homes     *homes  // other namespaces of releases
	dry       *dryRun // nil, except in a client that changes nothing
}

// New makes a Client. It makes no request.
func New(o Options) (*Client, error) {
	if o.Config == nil || o.Namespace == "" {
		return nil, errors.New("helm: Options.Config and Options.Namespace are required")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	shared, err := rest.HTTPClientFor(o.Config)
	if err != nil {
		return nil, fmt.Errorf("helm: make an HTTP client: %w", err)
	}
	address, _, err := rest.DefaultServerUrlFor(o.Config)
	if err != nil {
		return nil, fmt.Errorf("helm: address of the API server: %w", err)
	}
	next := shared.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	c := &Client{options: o, transport: limitTransport{next}, charts: &charts.Cache{}, build: buildOf(), locks: &locks{}, homes: &homes{root: o.Namespace}}
	c.base = &rest.Config{
		Host:           address.String(),
		UserAgent:      o.Config.UserAgent,
		QPS:            -1, // one client for all modules would queue behind client-go's 5 requests per second
		WarningHandler: warnings{o.Log},
	}
	return c, c.connect()
}

// connect makes the clients that are not bound to one operation; each of their
// calls takes its own context.
func (c *Client) connect() error {
	cfg := c.over(c.transport)
	var err error
	if c.kinds, err = kinds.New(cfg); err != nil {
		return fmt.Errorf("helm: discovery client: %w", err)
	}
	if c.metadata, err = metadata.NewForConfig(metadata.ConfigFor(cfg)); err != nil {
		return fmt.Errorf("helm: metadata client: %w", err)
	}
	if c.dynamic, err = dynamic.NewForConfig(cfg); err != nil {
		return fmt.Errorf("helm: dynamic client: %w", err)
	}
	core, err := typedcorev1.NewForConfig(protobuf(cfg))
	if err != nil {
		return fmt.Errorf("helm: core client: %w", err)
	}
	c.objects = c.options.Driver.objects(core, c.options.Namespace)
	c.records = &records{client: c.metadata, driver: c.options.Driver, namespace: c.options.Namespace}
	return nil
}

// over returns a REST configuration that sends its requests through t. It has
// no credentials of its own: the shared transport adds them.
func (c *Client) over(t http.RoundTripper) *rest.Config {
	cfg := rest.CopyConfig(c.base)
	cfg.Transport = t
	return cfg
}

// protobuf makes a configuration speak the compact form of built-in kinds.
func protobuf(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return cfg
}

// Releases lists the names of all releases in the operator's namespace, sorted, whatever their status and
// whoever has installed them: see Ours. Of those in other namespaces it lists what belongs to modules (H20).
func (c *Client) Releases(ctx context.Context) ([]string, error) {
	states, err := c.records.readAll(ctx)
	if err != nil {
		return nil, &Error{Kind: readKind(ctx, err), Err: err}
	}
	elsewhere, err := c.away(ctx)
	if err != nil {
		return nil, &Error{Kind: readKind(ctx, err), Err: err}
	}
	all := append(sortedKeys(states), elsewhere...)
	slices.Sort(all)
	return slices.Compact(all), nil
}

// ResetDiscovery says that the kinds of the API server have changed: CRDs were
// installed (M6).
func (c *Client) ResetDiscovery() { c.kinds.Forget() }

// SubchartCRDs returns the definitions in crds/ of the subcharts that the values of a module enable.
// A chart that does not load has none here: Apply says why.
func (c *Client) SubchartCRDs(m Module) []charts.File {
	if !charts.HasSubcharts(m.Dir) {
		return nil
	}
	loaded, err := c.charts.Load(m.chart())
	if err != nil {
		return nil
	}
	files, err := loaded.SubchartCRDs(m.Values)
	if err != nil {
		return nil
	}
	return files
}

// Charts are the loaded charts, for those who check values.
func (c *Client) Charts() *charts.Cache { return c.charts }

// WarmUp reads the kinds of the API server, so that the first Apply need not.
func (c *Client) WarmUp(ctx context.Context) error {
	_, err := c.kinds.Capabilities(ctx)
	return err
}

// warnings hands warnings of the API server (deprecated versions, suspicious
// fields) to the log.
type warnings struct{ log *slog.Logger }

// HandleWarningHeader implements rest.WarningHandler.
func (w warnings) HandleWarningHeader(code int, _, text string) {
	const persistent = 299 // the only code Kubernetes uses
	if code == persistent && text != "" {
		w.log.Warn("the API server warns", "err", text) // so that it is repeated at growing distances
	}
}

// locks holds one mutex for each release.
type locks struct {
	mu     sync.Mutex
	byName map[string]*sync.Mutex
}

func (l *locks) lock(name string) (unlock func()) {
	m := l.of(name)
	m.Lock()
	return m.Unlock
}

// busy reports whether an operation on a release is under way.
func (l *locks) busy(name string) bool {
	m := l.of(name)
	if m.TryLock() {
		m.Unlock()
		return false
	}
	return true
}

func (l *locks) of(name string) *sync.Mutex {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byName == nil {
		l.byName = map[string]*sync.Mutex{}
	}
	m := l.byName[name]
	if m == nil {
		m = &sync.Mutex{}
		l.byName[name] = m
	}
	return m
}
