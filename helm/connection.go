package helm

import (
	"fmt"
	"log/slog"
	"net/http"

	"k8s.io/client-go/dynamic"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"addon-operator/helm/kinds"
)

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
