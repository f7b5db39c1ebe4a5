// Package kinds keeps the capabilities of the API server: its kinds and where they are
// served, and the part that templates read as .Capabilities.
package kinds

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"helm.sh/helm/v3/pkg/chartutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
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
type Server struct {
	client    *discovery.DiscoveryClient
	unchanged func(since time.Time) bool // nil: the kinds are not watched
	recent    func() (time.Time, []*metav1.APIGroup, []*metav1.APIResourceList)
	last      atomic.Pointer[answer] // empty: not asked yet
	forgotten atomic.Bool            // the next call of Capabilities asks

	asking sync.Mutex // one goroutine sends requests, and the others wait for the answer
}

// answer is one answer of discovery. It never changes.
type answer struct {
	at           time.Time // when the kinds were requested: changes since then may be missing
	missed       bool      // it was requested because of an unknown kind
	capabilities *chartutil.Capabilities
	mappings     map[schema.GroupVersionKind]*meta.RESTMapping // without a version: the preferred one of the group
	listed       map[schema.GroupVersion]bool                  // with kinds
	away         map[schema.GroupVersion]error                 // did not answer
}

// New makes a Server. It makes no request.
func New(cfg *rest.Config) (*Server, error) {
	client, err := discovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, err
	}
	s := &Server{client: client}
	s.last.Store(&answer{})
	return s, nil
}

// Watch makes the answers of unchanged take the place of requests: it reports whether no definition
// of a kind has changed since a time, as far as its watches are connected. recent has what another client has asked
// for a moment ago, and when; its time is zero if there is no such answer. It is called before all other methods.
func (s *Server) Watch(unchanged func(since time.Time) bool, recent func() (time.Time, []*metav1.APIGroup, []*metav1.APIResourceList)) {
	s.unchanged, s.recent = unchanged, recent
}

// Capabilities returns what templates see as .Capabilities, and which APIs did not answer then: whether one of their
// kinds exists has no answer. Kinds that appear later are seen at the next call (H11).
func (s *Server) Capabilities() (*chartutil.Capabilities, []*AwayError, error) {
	a := s.last.Load()
	if !s.undisturbed(a) {
		var err error
		if a, err = s.ask(s.undisturbed, false); err != nil {
			return nil, nil, err
		}
	}
	return a.capabilities, a.awayErrors(), nil
}

// undisturbed reports whether an answer may be used without a request: no definition of a
// kind has changed since it was requested, as far as is known.
func (s *Server) undisturbed(a *answer) bool {
	age := maxAge
	if s.unchanged == nil || len(a.away) > 0 {
		age = blindAge
	}
	return !s.forgotten.Load() && time.Since(a.at) <= age && (s.unchanged == nil || s.unchanged(a.at))
}

// Forget makes the next call of Capabilities read everything again.
func (s *Server) Forget() { s.forgotten.Store(true) }

// ask asks the API server, unless the last answer, or that of another goroutine meanwhile, is enough. missed: a kind
// is unknown.
func (s *Server) ask(enough func(*answer) bool, missed bool) (*answer, error) {
	s.asking.Lock()
	defer s.asking.Unlock()
	before := s.last.Load()
	if enough(before) {
		return before, nil
	}
	forgotten := s.forgotten.Swap(false)
	fresh, err := s.read(before, missed || forgotten)
	if err != nil {
		s.forgotten.Store(true)
		return nil, fmt.Errorf("read the APIs of the API server: %w", err)
	}
	fresh.missed = missed
	s.last.Store(fresh)
	return fresh, nil
}

// read reads version and kinds; with changed, kinds may have appeared this moment. That some APIs do not answer is no
// error.
func (s *Server) read(before *answer, changed bool) (*answer, error) {
	now := &answer{
		at: time.Now(), mappings: map[schema.GroupVersionKind]*meta.RESTMapping{},
		listed: map[schema.GroupVersion]bool{}, away: map[schema.GroupVersion]error{},
	}
	version, err := s.client.ServerVersion()
	if err != nil {
		return nil, err
	}
	groups, lists, err := s.list(now, changed || !before.at.IsZero())
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partial {
		return nil, err
	}
	names := map[string]bool{} // Helm's: v1, v1/Pod, apps/v1 …
	preferred := map[string]bool{}
	for _, g := range groups {
		preferred[g.PreferredVersion.GroupVersion] = true
		for _, v := range g.Versions {
			names[v.GroupVersion] = true
		}
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range list.APIResources {
			names[list.GroupVersion+"/"+r.Kind] = true
			now.add(gv, r, preferred[list.GroupVersion])
		}
	}
	s.noteAway(now, before, failed)
	now.capabilities = &chartutil.Capabilities{
		APIVersions: slices.Sorted(maps.Keys(names)),
		KubeVersion: chartutil.KubeVersion{Version: version.GitVersion, Major: version.Major, Minor: version.Minor},
		HelmVersion: chartutil.DefaultCapabilities.HelmVersion,
	}
	return now, nil
}

// list lists the kinds. At the start, the answer that another client has received a moment ago is as good.
func (s *Server) list(now *answer, again bool) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	if !again && s.recent != nil {
		if at, groups, lists := s.recent(); !at.IsZero() && s.unchanged(at) {
			now.at = at
			return groups, lists, nil
		}
	}
	return discovery.ServerGroupsAndResources(s.client)
}

// add adds a resource, if it is no subresource.
func (a *answer) add(gv schema.GroupVersion, r metav1.APIResource, preferred bool) {
	a.listed[gv] = true
	if strings.Contains(r.Name, "/") {
		return
	}
	m := &meta.RESTMapping{Resource: gv.WithResource(r.Name), GroupVersionKind: gv.WithKind(r.Kind), Scope: meta.RESTScopeRoot}
	if r.Namespaced {
		m.Scope = meta.RESTScopeNamespace
	}
	a.mappings[m.GroupVersionKind] = m
	if bare := m.GroupVersionKind.GroupKind().WithVersion(""); preferred || a.mappings[bare] == nil {
		a.mappings[bare] = m
	}
}

// Away reports whether APIs did not answer when the kinds were read last.
func (s *Server) Away() bool { return len(s.last.Load().away) > 0 }

// Reach returns an AwayError when the server of a group's API does not answer.
func (s *Server) Reach(group string) error { return s.last.Load().awayIn(group) }

// Mapping finds the resource of a kind; without a version, in the preferred one. An unknown kind makes it ask again,
// at most once a second. The error is a no-match error when there is no such kind, and an AwayError when it is
// unknown.
func (s *Server) Mapping(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	before := s.last.Load()
	if m := before.mappings[gvk]; m != nil {
		return m, nil
	}
	last, err := s.ask(func(now *answer) bool { return now != before || now.missed && time.Since(now.at) < missPause }, true)
	if err != nil {
		return nil, err
	}
	if m := last.mappings[gvk]; m != nil {
		return m, nil
	}
	if err := s.reach(last, gvk.GroupVersion()); err != nil {
		return nil, err
	}
	return nil, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
}

// Served is Mapping, in the preferred version of the group if the given one is not served.
func (s *Server) Served(gvk schema.GroupVersionKind) (*meta.RESTMapping, error) {
	m, err := s.Mapping(gvk)
	if other := s.last.Load(); meta.IsNoMatchError(err) && other.mappings[gvk.GroupKind().WithVersion("")] != nil {
		return other.mappings[gvk.GroupKind().WithVersion("")], nil
	}
	return m, err
}

// Namespaced reports whether objects of a mapping are in namespaces.
func Namespaced(m *meta.RESTMapping) bool { return m.Scope.Name() == meta.RESTScopeNameNamespace }

// Asked is .Capabilities of one render. It has what templates use of chartutil.Capabilities, and
// notes what they ask about kinds: those are inputs of the manifest (H6), and a question about an
// API whose kinds are unknown must not be answered (P13). All questions come from one goroutine.
type Asked struct {
	KubeVersion chartutil.KubeVersion
	HelmVersion any

	versions versions
	lists    int             // how often templates took the list
	asks     int             // how often they called Has; less than lists: they did something else with it
	answers  map[string]bool // by what Has was called with
}

// NewAsked makes the capabilities of one render.
func NewAsked(c *chartutil.Capabilities) *Asked {
	a := &Asked{KubeVersion: c.KubeVersion, HelmVersion: c.HelmVersion, answers: map[string]bool{}}
	all := make([]any, 0, len(c.APIVersions)+1)
	for _, v := range c.APIVersions {
		all = append(all, v)
	}
	// Behind the end of the list, where no template sees it.
	a.versions = versions(append(all, a)[:len(all)])
	return a
}

// APIVersions is what templates call.
func (a *Asked) APIVersions() any {
	a.lists++
	return a.versions
}

// About reports whether the render has asked about an API whose kinds are unknown, so that it has got no true answer,
// or has done something else with the list than to ask Has.
func (a *Asked) About(unknown schema.GroupVersion) bool {
	for version, answer := range a.answers {
		if !answer && version == unknown.String() || strings.HasPrefix(version, unknown.String()+"/") {
			return true
		}
	}
	return a.lists > a.asks
}

// Answers are what the render has asked, and was answered. all: it did something else with the list
// than to ask Has.
func (a *Asked) Answers() (answers map[string]bool, all bool) { return a.answers, a.lists > a.asks }

// versions is chartutil.VersionSet for templates: a list, because they may range over it. A list
// has no room for its Asked, so that is an element behind its end; a part of the list, which a
// template may cut out, has another element there, and its questions are not noted. As the list was
// taken without a question, they still count as something else than Has.
type versions []any

// Has reports whether an API, or a kind of it, is there.
func (v versions) Has(version string) bool {
	answer := slices.Contains(v, any(version))
	if a, ok := v[:len(v)+1][len(v)].(*Asked); ok {
		a.asks++
		a.answers[version] = answer
	}
	return answer
}

// AwayError reports that the kinds of an API are unknown now, because its server does not answer. It
// is no evidence about its kinds or their objects (P13): they must not be taken for absent.
type AwayError struct {
	Version schema.GroupVersion
	Err     error
}

// Error implements error.
func (e *AwayError) Error() string {
	return fmt.Sprintf("APIService %s is not available, so the kinds of the API %s are unknown: %v", apiService(e.Version), e.Version, e.Err)
}

// Unwrap returns the cause.
func (e *AwayError) Unwrap() error { return e.Err }

// apiService is the name of the APIService that registers an API.
func apiService(gv schema.GroupVersion) string { return gv.Version + "." + gv.Group }

// errNotListed is the cause when an API that is still registered is not among those that
// the API server lists: it has just started, or the server of the API has.
var errNotListed = errors.New("the API server does not list its kinds, although it is registered")

// noteAway notes which APIs do not answer: those that have failed, and those that were listed before, or were away,
// and are not listed any more although they are registered.
func (s *Server) noteAway(now, before *answer, failed map[schema.GroupVersion]error) {
	for gv, err := range failed {
		if !apierrors.IsNotFound(err) {
			now.away[gv] = err
		}
	}
	for _, gv := range slices.AppendSeq(slices.Collect(maps.Keys(before.listed)), maps.Keys(before.away)) {
		if !now.listed[gv] && now.away[gv] == nil {
			if err := s.registered(gv); err != nil {
				now.away[gv] = err
			}
		}
	}
}

// awayErrors are the APIs that did not answer, sorted.
func (a *answer) awayErrors() (all []*AwayError) {
	for gv, err := range a.away {
		all = append(all, &AwayError{gv, err})
	}
	slices.SortFunc(all, func(a, b *AwayError) int { return strings.Compare(apiService(a.Version), apiService(b.Version)) })
	return all
}

// awayIn returns an AwayError when an API of the group did not answer.
func (a *answer) awayIn(group string) error {
	for gv, err := range a.away {
		if gv.Group == group {
			return &AwayError{gv, err}
		}
	}
	return nil
}

// reach is awayIn for an API that lacks a kind. One whose group was never listed may be registered all the same: the
// API server has just started.
func (s *Server) reach(a *answer, gv schema.GroupVersion) error {
	if err := a.awayIn(gv.Group); err != nil {
		return err
	}
	for listed := range a.listed {
		if listed.Group == gv.Group {
			return nil
		}
	}
	if err := s.registered(gv); err != nil {
		return &AwayError{gv, err}
	}
	return nil
}

// registered reads the APIService of an API that is not listed; nil: there is none. An
// operator that may not read it must believe the list.
func (s *Server) registered(gv schema.GroupVersion) error {
	err := s.client.RESTClient().Get().AbsPath("/apis/apiregistration.k8s.io/v1/apiservices", apiService(gv)).
		Do(context.Background()).Error() // discovery takes no context; the transport limits its time
	switch {
	case err == nil:
		return errNotListed
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return nil
	}
	return fmt.Errorf("APIService %s: %w", apiService(gv), err)
}
