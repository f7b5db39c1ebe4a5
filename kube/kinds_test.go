package kube

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// discoveryStub answers discovery and counts.
type discoveryStub struct {
	asked  int
	groups []*metav1.APIGroup
	lists  []*metav1.APIResourceList
	err    error
}

func (d *discoveryStub) list(context.Context) ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	d.asked++
	return d.groups, d.lists, d.err
}

// serve adds a group; the first version is the preferred one.
func (d *discoveryStub) serve(group string, versions []string, resources ...metav1.APIResource) {
	g := &metav1.APIGroup{Name: group}
	for _, version := range versions {
		gv := schema.GroupVersion{Group: group, Version: version}.String()
		g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv, Version: version})
		d.lists = append(d.lists, &metav1.APIResourceList{GroupVersion: gv, APIResources: resources})
	}
	g.PreferredVersion = g.Versions[len(g.Versions)-1]
	d.groups = append(d.groups, g)
}

func resource(name, singular, kind string, short ...string) metav1.APIResource {
	return metav1.APIResource{Name: name, SingularName: singular, Kind: kind, ShortNames: short, Namespaced: true, Verbs: metav1.Verbs{"list", "watch"}}
}

func newDiscoveryStub() *discoveryStub {
	d := &discoveryStub{}
	d.serve("", []string{"v1"}, resource("pods", "pod", "Pod", "po"), resource("pods/status", "", "Pod"), resource("events", "event", "Event", "ev"))
	d.serve("apps", []string{"v1beta1", "v1"}, resource("deployments", "deployment", "Deployment", "deploy"))
	d.serve("events.k8s.io", []string{"v1"}, resource("events", "event", "Event", "ev"))
	d.serve("metrics.k8s.io", []string{"v1beta1"}, resource("pods", "", "PodMetrics"))
	d.serve("odd/name/here", []string{"v1"}, resource("odds", "odd", "Odd"))
	return d
}

// Another client gets a discovery once, and only a young and complete one.
func TestRecentKinds(t *testing.T) {
	away := &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{{Group: "away", Version: "v1"}: errors.New("away")}}
	for name, c := range map[string]struct {
		age          time.Duration
		err          error
		asked, given bool
	}{
		"before all": {},
		"at once":    {asked: true, given: true},
		"later":      {asked: true, age: discoveryInterval},
		"of a part":  {asked: true, err: away},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stub := newDiscoveryStub()
				stub.err = c.err
				client := &Client{kinds: &kinds{list: stub.list}}
				if c.asked {
					must(t, client.kinds.refresh(t.Context()))
				}
				time.Sleep(c.age)
				at, groups, lists := client.RecentKinds()
				if at.IsZero() == c.given || c.given && (len(groups) != len(stub.groups) || len(lists) != len(stub.lists)) {
					t.Errorf("%v: %d groups, %d lists", at, len(groups), len(lists))
				}
				must(t, client.kinds.refresh(t.Context()))
				if at, _, _ := client.RecentKinds(); !at.IsZero() {
					t.Error("it is given twice")
				}
			})
		})
	}
}

// C15: how hooks may name a kind.
func TestResolveKinds(t *testing.T) {
	k := &kinds{list: newDiscoveryStub().list}
	tests := map[string]struct{ apiVersion, word, want string }{
		"as the API writes it":       {"v1", "Pod", "v1 pods"},
		"in any case":                {"apps/v1", "dEPLOYMENT", "apps/v1 deployments"},
		"plural":                     {"", "pods", "v1 pods"},
		"short name":                 {"", "po", "v1 pods"},
		"preferred version":          {"", "deploy", "apps/v1 deployments"},
		"another version":            {"apps/v1beta1", "Deployment", "apps/v1beta1 deployments"},
		"the core group comes first": {"", "Event", "v1 events"},
		"another group":              {"events.k8s.io/v1", "ev", "events.k8s.io/v1 events"},
		"the kind beats the plural":  {"", "podmetrics", "metrics.k8s.io/v1beta1 pods"},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			got, err := k.resolve(t.Context(), test.apiVersion, test.word, false)
			if text := got.apiVersion() + " " + got.resource.Resource; err != nil || text != test.want {
				t.Errorf("%s, %v; want %s", text, err, test.want)
			}
		})
	}
}

// A kind in a version that is not served, or not any more, is answered with those that are.
func TestMissingVersionNamesThoseThatAreServed(t *testing.T) {
	d := newDiscoveryStub()
	d.serve("example.com", []string{"v1", "v1beta1"}, resource("gadgets", "gadget", "Gadget"))
	for word, want := range map[string]string{"Gadget": "it is served in example.com/v1, example.com/v1beta1", "gizmo": ""} {
		_, err := (&kinds{list: d.list}).resolve(t.Context(), "example.com/v1alpha1", word, false)
		if !errors.Is(err, errNoKind) || !strings.HasSuffix(err.Error(), want) || (want == "") == strings.Contains(err.Error(), "served in") {
			t.Errorf("%s: %v, want %q", word, err, want)
		}
	}
}

// C16: a miss asks the API server again, at most once a second.
func TestMissesAskOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDiscoveryStub()
		k := &kinds{list: d.list}
		miss := func(want int) {
			t.Helper()
			_, err := k.resolve(t.Context(), "example.com/v1", "Gadget", false)
			if !errors.Is(err, errNoKind) || !strings.Contains(err.Error(), "example.com/v1/Gadget") || d.asked != want {
				t.Errorf("%v after %d discoveries, want %d", err, d.asked, want)
			}
		}
		miss(1)
		miss(1)
		time.Sleep(discoveryInterval)
		miss(2)
		d.serve("example.com", []string{"v1"}, resource("gadgets", "gadget", "Gadget"))
		miss(2)
		time.Sleep(discoveryInterval)
		if _, err := k.resolve(t.Context(), "", "gadget", false); err != nil || d.asked != 3 {
			t.Errorf("%v after %d discoveries, want 3", err, d.asked)
		}
		time.Sleep(time.Hour)
		if _, err := k.resolve(t.Context(), "", "gadget", false); err != nil || d.asked != 3 {
			t.Errorf("a hit asked: %v after %d discoveries", err, d.asked)
		}
		if _, err := k.resolve(t.Context(), "", "gadget", true); err != nil || d.asked != 4 {
			t.Errorf("a fresh answer was asked for: %v after %d discoveries", err, d.asked)
		}
	})
}

// An API that does not answer is not gone: its kinds are unknown, not missing.
func TestKindsOfAnAPIThatIsAway(t *testing.T) {
	d := newDiscoveryStub()
	away := schema.GroupVersion{Group: "custom.metrics.k8s.io", Version: "v1"}
	d.err = &discovery.ErrGroupDiscoveryFailed{Groups: map[schema.GroupVersion]error{away: errors.New("no endpoints")}}
	k := &kinds{list: d.list}
	if _, err := k.resolve(t.Context(), "v1", "Pod", false); err != nil {
		t.Errorf("a kind of another API: %v", err)
	}
	for _, apiVersion := range []string{away.String(), ""} {
		_, err := k.resolve(t.Context(), apiVersion, "Unheard", false)
		if err == nil || errors.Is(err, errNoKind) || !strings.Contains(err.Error(), away.String()) {
			t.Errorf("apiVersion %q: %v, want one that names %s", apiVersion, err, away)
		}
	}
	if _, err := k.resolve(t.Context(), "apps/v1", "Unheard", false); !errors.Is(err, errNoKind) {
		t.Errorf("a kind missing from an API that answers: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	k.fetched = time.Time{}
	d.groups, d.lists = nil, nil
	if _, err := k.resolve(ctx, "apps/v1", "Unheard", false); err == nil || errors.Is(err, errNoKind) {
		t.Errorf("who asked has gone away in the middle: %v", err)
	}
	if _, err := k.resolve(t.Context(), "v1", "Pod", false); err != nil {
		t.Errorf("a kind of an answer that was complete: %v", err)
	}
	k = &kinds{list: (&discoveryStub{err: errors.New("connection refused")}).list}
	if _, err := k.resolve(t.Context(), "v1", "Pod", false); err == nil || errors.Is(err, errNoKind) {
		t.Errorf("an API server that is away: %v", err)
	}
}

// C16: a Watch that has ended looks for its kind no more.
func TestEndedWatchAwaitsNoKind(t *testing.T) {
	client, err := Connect(Options{Config: &rest.Config{Host: "http://127.0.0.1:1"}}) // nobody is there
	must(t, err)
	client.kinds = &kinds{list: newDiscoveryStub().list}
	watcher := NewWatcher(client, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		newWatch(watcher, Spec{Kind: "Gadget"}, selection{}, nil, nil).awaitKind(ctx)
	}()
	await(t, "the end of the search", ended)
}

// M6: what changed while the watch of definitions was away may come to discovery later than
// the watch comes back.
func TestKindsAfterAnOutageMaySettle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSourceBench(t)
		k, watches := newKindChanges(), []*Watch{b.watch(Spec{}).watch}
		b.list("1")
		quiet := func(want bool) {
			t.Helper()
			learned := time.Now().Add(time.Millisecond) // right after this
			if got := k.quiet(watches, learned); got != want {
				t.Errorf("what is learned now is taken for true: %v, want %v", got, want)
			}
		}
		quiet(true) // nothing was learned before
		b.source.note(t.Context(), "watch", errors.New("away"))
		quiet(false)
		time.Sleep(time.Second)
		b.source.note(t.Context(), "watch", nil)
		quiet(false)
		time.Sleep(kindsSettle)
		quiet(true)
	})
}
