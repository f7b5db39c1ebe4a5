package helm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/kube"
)

func (f *fixture) configMapObject(name string) Object {
	return Object{GVK: schema.GroupVersionKind{Kind: "ConfigMap"}, Namespace: f.namespace, Name: name}
}

// awaitGone waits until the watches have told of an object.
func (f *fixture) awaitGone(want Object) {
	f.Helper()
	f.eventually(func() bool {
		return slices.Contains(f.news.take(), want)
	})
}

// A reload in which nothing changes lists the records, and asks nothing else; so does that of a new process. A run
// without a reload reads the records of its release.
func TestRequestsWithoutChange(t *testing.T) {
	f := start(t)
	requests := f.record()
	var modules []Module
	for _, name := range []string{"one", "two", "three"} {
		m := moduleOf(t, name, "-- templates/a.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: "+name+"}}\n")
		f.apply(m, Installed, 1)
		modules = append(modules, m)
	}
	f.client.Close(f.Context())
	secrets := "GET /api/v1/namespaces/" + f.namespace + "/secrets"
	all := secrets + "?labelSelector=owner+in+%28helm%2C+addon-operator%29"
	reload := func(want ...string) {
		t.Helper()
		f.caughtUp()
		requests.take()
		releases, err := f.client.Releases(t.Context())
		must(t, err)
		must(t, second(f.client.Ours(t.Context(), releases)))
		for _, m := range modules {
			if f.apply(m, Skipped, 1); !f.recalls(m) {
				t.Errorf("%s is rendered", m.Name)
			}
		}
		got := slices.DeleteFunc(requests.take(), func(r string) bool { return !strings.Contains(r, "/namespaces/"+f.namespace+"/") })
		if !slices.Equal(got, want) {
			t.Errorf("requests: %q, want %q", got, want)
		}
	}
	f.restart()
	reload(all)
	reload(all)
	f.apply(modules[0], Skipped, 1)
	if got := requests.take(); !slices.ContainsFunc(got, func(r string) bool { return strings.Contains(r, "name%3Done") }) {
		t.Errorf("requests: %q", got)
	}
}

// H13: a deleted object is reported, and is back after the next Apply; our own work is
// no news.
func TestGone(t *testing.T) {
	f := start(t)
	m := module(t, "simple")
	objects := f.apply(m, Installed, 1).Objects
	if want := []Object{f.configMapObject("simple-a"), f.configMapObject("simple-b")}; !slices.Equal(objects, want) {
		t.Fatalf("objects of the release: %v", objects)
	}
	f.apply(m.with("text", "two"), Upgraded, 2)
	f.caughtUp()
	if gone := f.news.take(); len(gone) > 0 {
		t.Errorf("news of our own work: %v", gone)
	}
	a := f.configMapObject("simple-a")
	if !f.client.Present(a) {
		t.Error("simple-a counts as absent")
	}
	f.deleteConfigMap("simple-a")
	f.awaitGone(a)
	if f.client.Present(a) {
		t.Error("simple-a counts as present")
	}
	got := f.apply(m.with("text", "two"), Upgraded, 3)
	if len(got.Healed) != 1 || got.Healed[0].Name != "simple-a" {
		t.Errorf("healed: %v (%s)", got.Healed, got.Reason)
	}
	f.apply(m.with("text", "two"), Skipped, 3)
}

// Releases of other namespaces are other people's business.
func TestGoneOfOtherNamespaces(t *testing.T) {
	f := start(t)
	other := startOn(t, f.cluster)
	m := module(t, "simple")
	f.apply(m, Installed, 1)
	f.caughtUp()
	other.apply(m, Installed, 1)
	other.uninstall("simple", true)
	f.deleteConfigMap("simple-b") // later than what must not be told
	var gone []Object
	f.eventually(func() bool { // it counts as absent a moment before it is reported
		gone = append(gone, f.news.take()...)
		return len(gone) > 0
	})
	if !slices.Equal(gone, []Object{f.configMapObject("simple-b")}) {
		t.Errorf("news: %v", gone)
	}
}

const manyKinds = `
-- templates/all.yaml --
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: in-list}}
- {apiVersion: v1, kind: ServiceAccount, metadata: {name: account}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "{{ .Release.Namespace }}", namespace: ignored}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: kept, annotations: {helm.sh/resource-policy: keep}}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: hook, annotations: {helm.sh/hook: "pre-install,pre-upgrade"}}}
`

// H13, H14: lists are flattened, cluster-wide objects have no namespace, hooks are not
// missed, and what must be kept is wanted while the release is there.
func TestGoneOfManyKinds(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "many", manyKinds)
	objects := f.apply(m, Installed, 1).Objects
	role := Object{GVK: schema.GroupVersionKind{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole"}, Name: f.namespace}
	account := Object{GVK: schema.GroupVersionKind{Kind: "ServiceAccount"}, Namespace: f.namespace, Name: "account"}
	for _, want := range []Object{role, account, f.configMapObject("in-list"), f.configMapObject("kept")} {
		if !slices.Contains(objects, want) {
			t.Errorf("%v is not among %v", want, objects)
		}
	}
	if len(objects) != 4 {
		t.Errorf("objects: %v", objects)
	}
	f.caughtUp()
	f.deleteConfigMap("hook")
	f.deleteConfigMap("in-list")
	f.awaitGone(f.configMapObject("in-list"))
	must(t, f.kube.RbacV1().ClusterRoles().Delete(t.Context(), f.namespace, metav1.DeleteOptions{}))
	f.awaitGone(role)
	f.deleteConfigMap("kept")
	f.awaitGone(f.configMapObject("kept"))
	if got := f.apply(m, Upgraded, 2); len(got.Healed) != 3 {
		t.Errorf("healed: %v", got.Healed)
	}
	f.apply(m, Skipped, 2)
	f.uninstall("many", true)
	f.kept("what must be kept is gone", "kept")
	f.apply(m, Installed, 1) // and is taken over
	f.apply(m, Skipped, 1)
}

// A kind that goes takes its objects along; when it is back, so are they.
func TestGoneWithTheKind(t *testing.T) {
	f := start(t)
	f.createCRD()
	m := moduleOf(t, "things", fmt.Sprintf("-- Chart.yaml --\napiVersion: v2\nname: things\nversion: 1.0.0\n-- templates/a.yaml --\napiVersion: %s/v1\nkind: Thing\nmetadata: {name: a}\n", groupOf(f.namespace)))
	thing := Object{GVK: schema.GroupVersionKind{Group: groupOf(f.namespace), Kind: "Thing"}, Namespace: f.namespace, Name: "a"}
	f.eventually(func() bool { // the definition is not served yet
		_, err := f.client.Apply(t.Context(), m)
		return err == nil
	})
	f.eventually(func() bool { return f.client.Present(thing) })
	f.deleteCRD()
	f.awaitGone(thing)
	f.eventually(func() bool {
		_, err := f.crds().Get(t.Context(), "things."+groupOf(f.namespace), metav1.GetOptions{})
		return err != nil
	})
	f.createCRD()
	f.eventually(func() bool {
		_, err := f.client.Apply(t.Context(), m)
		return err == nil
	})
	f.eventually(func() bool {
		return slices.ContainsFunc(f.presence.WatchedKinds(), func(w kube.WatchedKind) bool {
			return strings.HasPrefix(w.Resource, "things.") && w.Problem == "" && w.Objects == 1
		})
	})
}

// A kind that may not be watched is asked for, which the log says; deletions are reported
// all the same.
func TestGoneOfForbiddenKind(t *testing.T) {
	f := start(t)
	f.watchAs = f.namespace + "-watcher"
	f.grant(f.watchAs,
		rbacv1.PolicyRule{Verbs: []string{"list", "watch"}, APIGroups: []string{""}, Resources: []string{"secrets"}},
		rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"configmaps"}},
		rbacv1.PolicyRule{Verbs: []string{"list", "watch"}, APIGroups: []string{"apiextensions.k8s.io", "apiregistration.k8s.io"}, Resources: []string{"*"}},
	)
	f.restart()
	m := module(t, "simple")
	apply := func() Outcome { // the watches never catch up
		t.Helper()
		got, err := f.client.Apply(t.Context(), m)
		must(t, err)
		return got
	}
	apply()
	f.eventually(func() bool {
		kinds := f.presence.WatchedKinds()
		return len(kinds) == 1 && kinds[0].Resource == "configmaps" && kinds[0].Polled && strings.Contains(kinds[0].Problem, "forbidden")
	})
	if !strings.Contains(f.log.String(), "cannot be watched and are polled") {
		t.Error("the log says nothing")
	}
	if got := apply(); got.Action != Skipped {
		t.Errorf("%+v", got)
	}
	f.deleteConfigMap("simple-a")
	f.awaitGone(f.configMapObject("simple-a"))
	if got := apply(); len(got.Healed) != 1 {
		t.Errorf("healed: %+v", got)
	}
}

// Somebody else works on a release with the helm command line: the next reload, or run, sees it. Memory that demands
// an upgrade is not believed: neither if the record that it knows is another one, nor if there is a newer one. H6.
func TestChangedRecords(t *testing.T) {
	f := start(t)
	m := module(t, "simple").with("text", "one")
	rollback := action.NewRollback(f.stock())
	reload := func() { must(t, second(f.client.Releases(t.Context()))) }
	f.apply(m, Installed, 1)
	f.apply(m.with("text", "two"), Upgraded, 2)
	reload()
	must(t, rollback.Run("simple"))
	f.apply(m.with("text", "two"), Skipped, 2)
	f.apply(m.with("text", "two"), Upgraded, 4)
	failed := f.lastRelease("simple")
	failed.Version, failed.Info.Status = 5, release.StatusFailed
	must(t, f.stock().Releases.Create(failed))
	f.apply(m.with("text", "three"), Upgraded, 6)
	must(t, rollback.Run("simple"))
	f.apply(m.with("text", "four"), Upgraded, 8)
	must(t, f.kube.CoreV1().Secrets(f.namespace).Delete(t.Context(), secretName("simple", 8), metav1.DeleteOptions{}))
	reload()
	f.apply(m.with("text", "four"), Upgraded, 8)
	if got := f.configMap("simple-a")["text"]; got != "four" {
		t.Errorf("text = %q", got)
	}
}

// H11: a kind that others add is seen in templates, without a request while nothing
// changes.
func TestKindsAreSeen(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "caps", fmt.Sprintf("-- Chart.yaml --\napiVersion: v2\nname: caps\nversion: 1.0.0\n-- templates/a.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: caps}\ndata: {known: '%s'}\n", "{{ .Capabilities.APIVersions.Has \""+groupOf(f.namespace)+"/v1\" }}"))
	f.apply(m, Installed, 1)
	f.apply(m, Skipped, 1)
	f.createCRD()
	f.eventually(func() bool {
		_, err := f.client.Apply(t.Context(), m)
		return err == nil && f.configMap("caps")["known"] == "true"
	})
}
