package health_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"addon-operator/helm/health"
	"addon-operator/testkit/devclustertest"
)

// lab is a follower on a real API server, and what it reports.
type lab struct {
	*testing.T
	namespace string
	client    dynamic.Interface
	follower  *health.Follower
	requests  *atomic.Int64 // of the follower
	hold      chan struct{} // unless it is nil, lists are answered when it is closed

	mu    sync.Mutex
	known map[string]health.Health
}

func newLab(t *testing.T, as string) *lab {
	t.Helper()
	t.Parallel()
	cluster := devclustertest.Start(t)
	l := &lab{T: t, namespace: cluster.Namespace(t), client: dynamic.NewForConfigOrDie(cluster.RESTConfig()), requests: &atomic.Int64{}, known: map[string]health.Health{}}
	config := rest.CopyConfig(cluster.RESTConfig())
	config.Impersonate.UserName = as
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return counted{next, l} })
	l.follower = health.NewFollower(dynamic.NewForConfigOrDie(config), "app.kubernetes.io/managed-by=Helm", func(kind schema.GroupKind, name types.NamespacedName, h health.Health) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.known[kind.Kind+" "+name.Name] = h
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		l.follower.Run(ctx)
		close(done)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return l
}

type counted struct {
	next http.RoundTripper
	lab  *lab
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.lab.requests.Add(1)
	answer, err := c.next.RoundTrip(r)
	if c.lab.hold != nil && strings.HasSuffix(r.URL.Path, "/deployments") {
		<-c.lab.hold
	}
	return answer, err
}

func mapping(gvk schema.GroupVersionKind, resource string) *meta.RESTMapping {
	return &meta.RESTMapping{Resource: gvk.GroupVersion().WithResource(resource), GroupVersionKind: gvk, Scope: meta.RESTScopeNamespace}
}

func deployments() *meta.RESTMapping {
	return mapping(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, "deployments")
}

func (l *lab) create(m *meta.RESTMapping, name, spec string) *unstructured.Unstructured {
	l.Helper()
	o := &unstructured.Unstructured{}
	text := fmt.Sprintf(`{"apiVersion": %q, "kind": %q, "metadata": {"name": %q, "labels": {"app.kubernetes.io/managed-by": "Helm"}}, "spec": %s}`,
		m.GroupVersionKind.GroupVersion(), m.GroupVersionKind.Kind, name, spec)
	if err := o.UnmarshalJSON([]byte(text)); err != nil {
		l.Fatal(err)
	}
	o, err := l.client.Resource(m.Resource).Namespace(l.namespace).Create(l.Context(), o, metav1.CreateOptions{})
	if err != nil {
		l.Fatal(err)
	}
	return o
}

func (l *lab) changed(m *meta.RESTMapping, o *unstructured.Unstructured) {
	l.follower.Changed(m, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: l.namespace, Name: o.GetName(), ResourceVersion: o.GetResourceVersion(),
	}})
}

func (l *lab) eventually(object, want string) {
	l.Helper()
	l.await(fmt.Sprintf("%s to be %s", object, want), func() bool { return l.state(object) == want })
}

func (l *lab) await(what string, there func() bool) {
	l.Helper()
	err := wait.PollUntilContextTimeout(l.Context(), 10*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return there(), nil })
	if err != nil {
		l.Fatalf("waiting for %s: %v", what, err)
	}
}

const deployment = `{"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}}`

// H25: what changes is read again, what has not changed is not, and what is gone is forgotten.
func TestFollower(t *testing.T) {
	l := newLab(t, "")
	configMaps, config := mapping(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "configmaps"), &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "any"}}
	l.follower.Changed(configMaps, config)
	l.eventually("ConfigMap any", health.Current)
	config.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	l.follower.Changed(configMaps, config)
	l.eventually("ConfigMap any", health.Terminating)
	config.DeletionTimestamp = nil // it was created again
	l.follower.Changed(configMaps, config)
	if n := l.requests.Load(); n != 0 {
		t.Errorf("%d requests for a kind without a status", n)
	}
	o := l.create(deployments(), "web", deployment)
	name := types.NamespacedName{Namespace: l.namespace, Name: "web"}
	l.changed(deployments(), o)
	l.eventually("Deployment web", health.InProgress)

	api := l.client.Resource(deployments().Resource).Namespace(l.namespace)
	patch := `{"spec": {"replicas": 0}}` // the controller has nothing to wait for then
	if _, err := api.Patch(t.Context(), "web", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	l.await("the Deployment to be current", func() bool {
		now, err := api.Get(t.Context(), "web", metav1.GetOptions{})
		if err == nil {
			o = now
			l.changed(deployments(), o)
		}
		return l.state("Deployment web") == health.Current
	})
	l.mu.Lock()
	clear(l.known)
	l.mu.Unlock()
	l.follower.Again(deployments().GroupVersionKind.GroupKind(), name) // it was written, with the same result
	l.follower.Again(schema.GroupKind{Kind: "ConfigMap"}, types.NamespacedName{Name: "any"})
	l.follower.Again(schema.GroupKind{Kind: "Pod"}, name) // of a kind that is not watched
	l.eventually("Deployment web", health.Current)
	l.eventually("ConfigMap any", health.Current)
	before := l.requests.Load()
	for range 100 {
		l.changed(deployments(), o)
	}
	other := l.create(deployments(), "other", deployment)
	l.changed(deployments(), other)
	l.eventually("Deployment other", health.InProgress)
	if n := l.requests.Load() - before; n > 2 { // the last state of web may not have been read yet
		t.Errorf("%d requests, want one for what is new", n)
	}
	l.follower.Gone(deployments().GroupVersionKind.GroupKind(), name)
	before = l.requests.Load()
	l.follower.Again(deployments().GroupVersionKind.GroupKind(), name)
	l.changed(deployments(), other) // nothing new
	if n := l.requests.Load() - before; n != 0 {
		t.Errorf("%d requests for what is gone", n)
	}
}

// Many new objects of a kind cost one request, or a few: the first may be read before the others are named.
func TestFollowerListsTheMany(t *testing.T) {
	l := newLab(t, "")
	var many []*unstructured.Unstructured
	for i := range 30 {
		many = append(many, l.create(deployments(), fmt.Sprintf("web-%d", i), deployment))
	}
	for _, o := range many {
		l.changed(deployments(), o)
	}
	for _, o := range many {
		l.eventually("Deployment "+o.GetName(), health.InProgress)
	}
	if n := l.requests.Load(); n > 15 { // one for each would be 30
		t.Errorf("%d requests", n)
	}
}

// H25: what is written while a list is on its way is read again, and also when no event says so.
func TestFollowerReadsAgainWhatWasWrittenDuringAList(t *testing.T) {
	l := newLab(t, "")
	l.hold = make(chan struct{})
	var many []*unstructured.Unstructured
	for i := range 6 {
		many = append(many, l.create(deployments(), fmt.Sprintf("web-%d", i), deployment))
	}
	for _, o := range many {
		l.changed(deployments(), o)
	}
	l.await("the list", func() bool { return l.requests.Load() > 0 })
	written := many[5].GetName()
	api := l.client.Resource(deployments().Resource).Namespace(l.namespace)
	_, err := api.Patch(t.Context(), written, types.MergePatchType, []byte(`{"spec": {"replicas": 0}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l.await("the Deployment to be current", func() bool {
		now, err := api.Get(t.Context(), written, metav1.GetOptions{})
		return err == nil && health.Of(now).State == health.Current
	})
	l.follower.Again(deployments().GroupVersionKind.GroupKind(), types.NamespacedName{Namespace: l.namespace, Name: written})
	close(l.hold)
	l.eventually("Deployment "+written, health.Current)
	l.eventually("Deployment "+many[0].GetName(), health.InProgress)
}

func (l *lab) state(object string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known[object].State
}

// H25: an object that may not be read is unknown, and the message says why.
func TestFollowerWithoutPermission(t *testing.T) {
	l := newLab(t, "health-unprivileged")
	l.changed(deployments(), l.create(deployments(), "a", deployment))
	l.eventually("Deployment a", health.Unknown)
	l.mu.Lock()
	defer l.mu.Unlock()
	if got := l.known["Deployment a"].Message; !strings.Contains(got, "forbidden") {
		t.Errorf("the message is %q", got)
	}
}
