// Package kinds keeps the capabilities of the API server: its kinds and where they are
// served, and the part that templates read as .Capabilities.
package kinds

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
	cache "k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

const (
	// missPause is the shortest time between two refreshes because of an unknown
	// kind: a chart that waits for its CRD must not flood the API server.
	missPause = time.Second
	// blindAge is how long discovery is trusted when nothing watches the kinds, or an API does not answer.
	blindAge = 10 * time.Second
	// maxAge is how long it is trusted otherwise: the version of the API server changes without a notice.
	maxAge = 10 * time.Minute
)

// Server is what one API server can do. All releases share it. It is read again when the definition of a kind
// changes. It is safe for concurrent use.
//
// Its parts are layers: lister asks, and notes which APIs do not answer, cached is client-go's cache over it, mapper
// finds resources in that, and known keeps what mapper has found. resetMapper empties all but the lister.
type Server struct {
	http   *http.Client
	apis   string // URL of the APIs with a group
	lister *lister
	cached discovery.CachedDiscoveryInterface
	mapper *restmapper.DeferredDiscoveryRESTMapper
	known  atomic.Pointer[sync.Map] // of schema.GroupVersionKind to *meta.RESTMapping: each object asks several times

	asking sync.Mutex // one goroutine sends requests, and the others wait for the answer; taken before mu

	// mu guards what follows. It is held while the kinds are loaded.
	mu           sync.Mutex
	unchanged    func(ctx context.Context, since time.Time) bool // nil: the kinds are not watched
	asked        time.Time                                       // when the kinds were requested: changes since then may be missing; zero makes the next call read them
	reset        time.Time                                       // when an unknown kind last caused a reset
	capabilities *chartutil.Capabilities                         // replaced as a whole, never changed
}

// New makes a Server. It makes no request.
func New(cfg *rest.Config) (*Server, error) {
	shared, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, err
	}
	client, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, shared)
	if err != nil {
		return nil, err
	}
	s := &Server{http: shared, apis: cfg.Host + "/apis"}
	s.lister = &lister{DiscoveryClient: client, registered: s.isRegistered}
	s.cached = cache.NewMemCacheClient(s.lister)
	s.mapper = restmapper.NewDeferredDiscoveryRESTMapper(s.cached)
	s.known.Store(&sync.Map{})
	return s, nil
}

// Capabilities returns what templates see as .Capabilities. The pointer stays
// the same as long as nothing changed, so it serves as a key for rendered
// manifests. Kinds that appear later are seen at the next call (H11).
func (s *Server) Capabilities(ctx context.Context) (*chartutil.Capabilities, error) {
	if known := s.undisturbed(ctx); known != nil {
		return known, nil
	}
	s.asking.Lock()
	defer s.asking.Unlock()
	if known := s.undisturbed(ctx); known != nil { // another caller has asked meanwhile
		return known, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := time.Now()
	s.resetMapper()
	fresh, err := s.load()
	if err != nil {
		return nil, fmt.Errorf("read the APIs of the API server: %w", err)
	}
	s.asked = asked
	if !sameCapabilities(s.capabilities, fresh) {
		s.capabilities = fresh
	}
	return s.capabilities, nil
}

// Watch makes the answers of unchanged take the place of requests: it reports whether no definition
// of a kind has changed since a time, as far as its watches are connected. It is called before all
// other methods.
func (s *Server) Watch(unchanged func(ctx context.Context, since time.Time) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unchanged = unchanged
}

// undisturbed returns the capabilities that need no request: no definition of a
// kind has changed since they were requested; nil if that is not known.
func (s *Server) undisturbed(ctx context.Context) *chartutil.Capabilities {
	s.mu.Lock()
	unchanged, asked, known := s.unchanged, s.asked, s.capabilities
	s.mu.Unlock()
	age := maxAge
	if unchanged == nil || len(s.lister.allAway()) > 0 {
		age = blindAge
	}
	if time.Since(asked) > age || unchanged != nil && !unchanged(ctx, asked) {
		return nil
	}
	return known
}

// Away are the APIs that did not answer when the kinds were read last, sorted. Whether one of their kinds exists has no
// answer for a template.
func (s *Server) Away() []schema.GroupVersion { return s.lister.allAway() }

// Reach returns an AwayError when the server of a group's API does not answer.
func (s *Server) Reach(group string) error { return s.lister.awayIn(group) }

// Forget makes the next call of Capabilities read everything again.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = time.Time{}
	s.resetMapper()
}

// load reads all kinds and the version, through the cache that was just reset.
func (s *Server) load() (*chartutil.Capabilities, error) {
	version, err := s.cached.ServerVersion()
	if err != nil {
		return nil, err
	}
	// A registered API without a working server is reported as an error next to
	// a list that holds all others.
	apis, err := action.GetVersionSet(s.cached)
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

// Mapping finds the resource of a kind. An unknown kind refreshes discovery, at
// most once a second: the cached client believes itself fresh forever and would
// never see a kind that was added since. The error is a no-match error when there is
// no such kind, and an AwayError when it is unknown.
func (s *Server) Mapping(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	known := s.known.Load() // what is found late goes into the map of its time
	if m, ok := known.Load(gvk); ok {
		return m.(*meta.RESTMapping), nil
	}
	m, err := s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if meta.IsNoMatchError(err) && s.resetAfterMiss() {
		m, err = s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	}
	if err == nil {
		known.Store(gvk, m)
	}
	if meta.IsNoMatchError(err) {
		if away := s.lister.reach(gvk.GroupVersion()); away != nil {
			err = away
		}
	}
	return m, err
}

// Served is a kind in a version that the server serves: the given one if it is, else the preferred one of the group.
// The error is that of Mapping, for a kind that no version has.
func (s *Server) Served(gvk schema.GroupVersionKind) (schema.GroupVersionKind, error) {
	_, err := s.Mapping(gvk)
	if !meta.IsNoMatchError(err) {
		return gvk, err
	}
	m, otherErr := s.mapper.RESTMapping(gvk.GroupKind())
	switch {
	case meta.IsNoMatchError(otherErr):
		return gvk, err
	case otherErr != nil:
		return gvk, otherErr
	}
	return m.GroupVersionKind, nil
}

func (s *Server) resetAfterMiss() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.reset) < missPause {
		return false
	}
	s.reset = time.Now()
	s.resetMapper()
	return true
}

// resetMapper forgets all kinds, in the discovery cache too.
func (s *Server) resetMapper() {
	s.mapper.Reset()
	s.known.Store(&sync.Map{})
}

// Cached is the discovery as Helm wants it.
func (s *Server) Cached() discovery.CachedDiscoveryInterface { return s.cached }

// Mapper is the mapper as Helm wants it.
func (s *Server) Mapper() meta.RESTMapper { return s.mapper }

// Namespaced reports whether objects of a mapping are in namespaces.
func Namespaced(m *meta.RESTMapping) bool { return m.Scope.Name() == meta.RESTScopeNameNamespace }
