package helm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage"
	"k8s.io/apimachinery/pkg/api/meta"
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
