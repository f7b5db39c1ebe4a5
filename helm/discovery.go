package helm

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

const (
	// missPause is the shortest time between two refreshes because of an unknown
	// kind: a chart that waits for its CRD must not flood the API server.
	missPause = time.Second
	// blindAge is how long discovery is trusted when the API server gives no
	// ETag, by which a change would be seen at once.
	blindAge = 10 * time.Second
	// versionAge is how long the version of the API server is trusted.
	versionAge = 10 * time.Minute
)

// discovered is what the API server can do: its kinds, and Helm's capabilities
// made of them. It is shared by all releases and renewed when the list of APIs
// changes.
type discovered struct {
	http   *http.Client
	apis   string // URL of the aggregated list of APIs
	cached discovery.CachedDiscoveryInterface
	mapper *restmapper.DeferredDiscoveryRESTMapper
	known  atomic.Pointer[sync.Map] // of schema.GroupVersionKind to *meta.RESTMapping: each object asks several times

	asking sync.Mutex // one asks, and the others wait for its answer

	mu           sync.Mutex
	unchanged    func(ctx context.Context, since time.Time) bool // nil: nobody watches the kinds
	etag         string
	loaded       time.Time
	asked        time.Time // of the last answer, when it was asked for
	reset        time.Time
	capabilities *chartutil.Capabilities
}

func newDiscovered(cfg *rest.Config) (*discovered, error) {
	shared, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	client, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, shared)
	if err != nil {
		return nil, err
	}
	d := &discovered{http: shared, apis: cfg.Host + "/apis", cached: memory.NewMemCacheClient(client)}
	d.mapper = restmapper.NewDeferredDiscoveryRESTMapper(d.cached)
	d.known.Store(&sync.Map{})
	return d, nil
}

// Capabilities returns what templates see as .Capabilities. The pointer stays
// the same as long as nothing changed, so it serves as a key for rendered
// manifests. Kinds that appear later are seen at the next call (H11): one
// conditional request asks whether the list of APIs changed.
func (d *discovered) Capabilities(ctx context.Context) (*chartutil.Capabilities, error) {
	if known := d.undisturbed(ctx); known != nil {
		return known, nil
	}
	d.asking.Lock()
	defer d.asking.Unlock()
	if known := d.undisturbed(ctx); known != nil { // somebody has asked meanwhile
		return known, nil
	}
	asked := time.Now()
	etag, changed, err := d.probe(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the API server for its APIs: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.capabilities != nil && !changed && time.Since(d.loaded) < versionAge {
		d.asked = asked
		return d.capabilities, nil
	}
	d.resetMapper()
	fresh, err := d.load()
	if err != nil {
		return nil, fmt.Errorf("read the APIs of the API server: %w", err)
	}
	d.etag, d.loaded, d.asked = etag, time.Now(), asked
	if !sameCapabilities(d.capabilities, fresh) {
		d.capabilities = fresh
	}
	return d.capabilities, nil
}

func (d *discovered) watch(unchanged func(ctx context.Context, since time.Time) bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unchanged = unchanged
}

// undisturbed returns the capabilities that need no request: no definition of a
// kind has changed since they were asked for. Without them, nil.
func (d *discovered) undisturbed(ctx context.Context) *chartutil.Capabilities {
	d.mu.Lock()
	unchanged, asked, known := d.unchanged, d.asked, d.capabilities
	fresh := time.Since(d.loaded) < versionAge
	d.mu.Unlock()
	if unchanged == nil || !unchanged(ctx, asked) || !fresh {
		return nil
	}
	return known
}

// forget makes the next call of Capabilities ask for everything.
func (d *discovered) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.etag, d.loaded, d.asked = "", time.Time{}, time.Time{}
	d.resetMapper()
}

// probe asks for the list of APIs under the condition that it changed.
func (d *discovered) probe(ctx context.Context) (etag string, changed bool, err error) {
	d.mu.Lock()
	known, loaded := d.etag, d.loaded
	d.mu.Unlock()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, d.apis, http.NoBody)
	if err != nil {
		return "", false, err
	}
	req.Header.Set("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json")
	if known != "" {
		req.Header.Set("If-None-Match", known)
	}
	resp, err := d.http.Do(req)
	if err != nil {
		return "", false, err
	}
	defer resp.Body.Close()
	etag = resp.Header.Get("ETag")
	switch {
	case resp.StatusCode == http.StatusNotModified:
		return known, false, nil
	case resp.StatusCode != http.StatusOK:
		return "", false, fmt.Errorf("%s answers %s", d.apis, resp.Status)
	case etag == "":
		return "", time.Since(loaded) > blindAge, nil
	}
	return etag, etag != known, nil
}

func (d *discovered) load() (*chartutil.Capabilities, error) {
	version, err := d.cached.ServerVersion()
	if err != nil {
		return nil, err
	}
	// A registered API without a working server is reported as an error beside
	// a list that holds all others.
	apis, err := action.GetVersionSet(d.cached)
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, err
	}
	slices.Sort(apis)
	return &chartutil.Capabilities{
		APIVersions: apis,
		KubeVersion: chartutil.KubeVersion{Version: version.GitVersion, Major: version.Major, Minor: version.Minor},
		HelmVersion: chartutil.DefaultCapabilities.HelmVersion,
	}, nil
}

func sameCapabilities(a, b *chartutil.Capabilities) bool {
	return a != nil && b != nil && a.KubeVersion == b.KubeVersion && slices.Equal(a.APIVersions, b.APIVersions)
}

// mapping finds the resource of a kind. An unknown kind refreshes discovery, at
// most once a second: the cached client believes itself fresh for ever and would
// never see a kind that somebody else added.
func (d *discovered) mapping(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	known := d.known.Load() // what is found late goes into the map of its time
	if m, ok := known.Load(gvk); ok {
		return m.(*meta.RESTMapping), nil
	}
	m, err := d.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) && d.resetAfterMiss() {
		m, err = d.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err == nil {
		known.Store(gvk, m)
	}
	return m, err
}

func (d *discovered) resetAfterMiss() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.reset) < missPause {
		return false
	}
	d.reset = time.Now()
	d.resetMapper()
	return true
}

// resetMapper forgets all kinds, in the discovery cache too.
func (d *discovered) resetMapper() {
	d.mapper.Reset()
	d.known.Store(&sync.Map{})
}

func (d *discovered) isNamespaced(m *meta.RESTMapping) bool {
	return m.Scope.Name() == meta.RESTScopeNameNamespace
}
