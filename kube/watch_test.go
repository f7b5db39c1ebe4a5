package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/testkit/devclustertest"
)

// The way of one object, without shortcuts: C35, C38.
func TestWatchTellsChanges(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	world.createConfigMap(ns, "b", map[string]string{"v": "1"})
	world.createConfigMap(ns, "a", map[string]string{"v": "1"})

	l := listenSynced(t, world.watcher(), configMaps(ns))
	if got, want := l.snapshot(), []string{ns + `/a {"v":"1"}`, ns + `/b {"v":"1"}`}; !slices.Equal(got, want) {
		t.Fatalf("snapshot %q, want %q", got, want)
	}
	world.updateConfigMap(ns, "a", func(c *corev1.ConfigMap) { c.Labels["new"] = "label" }) // not in the filter result
	world.updateConfigMap(ns, "a", func(c *corev1.ConfigMap) { c.Data["v"] = "2" })
	world.deleteConfigMap(ns, "a")
	world.createConfigMap(ns, "a", map[string]string{"v": "2"})
	world.updateConfigMap(ns, "b", func(c *corev1.ConfigMap) { delete(c.Labels, "test") }) // no longer selected
	l.wants(
		"Modified "+ns+`/a {"v":"2"}`,
		"Deleted "+ns+`/a {"v":"2"}`,
		"Added "+ns+`/a {"v":"2"}`,
		"Deleted "+ns+`/b {"v":"1"}`,
	)
	state := l.watch.State()
	if state.Phase != Complete || state.Kind != "ConfigMap" || state.APIVersion != "v1" || state.Objects != 1 || state.Message != "" {
		t.Errorf("state %+v", state)
	}
}

// wantsEachOnce waits for n changes of one type, each of another object.
func (l *listener) wantsEachOnce(changeType string, n int) {
	l.t.Helper()
	eventually(l.t, fmt.Sprintf("%d changes are reported", n), func() bool { return len(l.lines()) >= n })
	seen := map[string]bool{}
	for _, line := range l.lines() {
		if seen[line] || !strings.HasPrefix(line, changeType) {
			l.t.Errorf("told twice or of another type: %s", line)
		}
		seen[line] = true
	}
	if len(seen) != n {
		l.t.Errorf("%d different changes, want %d", len(seen), n)
	}
}

// Watches that ask for the same share one reflector, stopped with the last.
func TestWatchesShareReflectors(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	watcher := world.watcher()
	spec := configMaps(ns)
	spec.Labels = &metav1.LabelSelector{MatchLabels: map[string]string{"test": ns, "x": "y"}}
	other := spec
	other.Kind = "configmaps"
	first, second := listenSynced(t, watcher, spec), listenSynced(t, watcher, other)
	if n := watcher.reflectors(); n != 1 {
		t.Errorf("%d reflectors for equal specs, want 1", n)
	}
	third := listenSynced(t, watcher, configMaps(ns))
	if n := watcher.reflectors(); n != 2 {
		t.Errorf("%d reflectors for two different specs, want 2", n)
	}
	first.watch.Stop()
	third.watch.Stop()
	eventually(t, "one reflector is left", func() bool { return watcher.reflectors() == 1 })
	world.createConfigMap(ns, "a", nil)
	world.updateConfigMap(ns, "a", func(c *corev1.ConfigMap) { c.Labels["x"] = "y" })
	second.wants("Added " + ns + "/a null")
	second.watch.Stop()
	eventually(t, "no reflector is left", func() bool { return watcher.reflectors() == 0 })
	if lines := first.lines(); len(lines) > 0 {
		t.Errorf("told after Stop: %s", lines)
	}

	settings := configMaps(ns)
	settings.Labels, settings.Names = nil, []string{"values"}
	world.client.ConfigMap(ns, "values").Watch(t.Context(), func(ConfigMap) {})
	hook, err := world.client.Watch(t.Context(), settings, nil, nil)
	must(t, err)
	eventually(t, "a hook may watch the ConfigMap of the operator, too", func() bool { return hook.State().Phase == Complete })
	if n := world.client.watcher.reflectors(); n != 1 {
		t.Errorf("%d reflectors for one ConfigMap, want 1", n)
	}
}

// Watches join and leave a shared source while objects come: none misses or
// doubles one.
func TestJoinUnderLoad(t *testing.T) {
	t.Parallel()
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	watcher := world.watcher()
	spec := configMaps(ns)
	first := listenSynced(t, watcher, spec)
	const n = 300
	var listeners []*listener
	for i := range n {
		world.createConfigMap(ns, fmt.Sprintf("c-%03d", i), nil)
		if i%10 == 0 {
			listeners = append(listeners, listen(t, watcher, spec))
		}
	}
	if reflectors := watcher.reflectors(); reflectors != 1 {
		t.Errorf("%d reflectors, want 1", reflectors)
	}
	first.wantsEachOnce(Added, n)
	for _, l := range listeners {
		await(t, "synced", l.synced)
		eventually(t, "the joined Watch has all objects", func() bool { return len(l.snapshot()) == n })
		eventually(t, "all is reported", func() bool { _, seq := l.watch.Snapshot(); return len(l.lines()) == int(seq) })
		l.wantsEachOnce(Added, len(l.lines()))
	}
}

// A Watch whose notify hangs holds up no other Watch, also not of its source.
func TestSlowNotify(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	watcher := world.watcher()
	hanging, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	var once sync.Once
	slow, err := watcher.Watch(t.Context(), configMaps(ns), func(Change) {
		once.Do(func() { close(hanging) })
		<-release
	}, nil)
	must(t, err)
	quick := listenSynced(t, watcher, configMaps(ns))
	eventually(t, "the slow Watch is complete", func() bool { return slow.State().Phase == Complete })
	world.createConfigMap(ns, "a", nil)
	await(t, "the slow notify", hanging)
	world.createConfigMap(ns, "b", nil)
	quick.wants("Added "+ns+"/a null", "Added "+ns+"/b null")
	eventually(t, "the cache of the slow Watch is current", func() bool { _, seq := slow.Snapshot(); return seq == 2 })
}

// C15: names and several namespaces become one watch each.
func TestNamesAndNamespaces(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	one, two, other := world.Namespace(t), world.Namespace(t), world.Namespace(t)
	watcher := world.watcher()
	spec := configMaps(one, two, one)
	spec.Names = []string{"a", "b"}
	spec.Fields = "metadata.name!=b"
	l := listenSynced(t, watcher, spec)
	if n := watcher.reflectors(); n != 4 {
		t.Errorf("%d reflectors for 2 names in 2 namespaces, want 4", n)
	}
	for _, ns := range []string{other, one, two} {
		for _, name := range []string{"c", "b", "a"} {
			world.createConfigMap(ns, name, nil)
		}
	}
	want := []string{one + "/a null", two + "/a null"}
	slices.Sort(want)
	eventually(t, "both objects are there", func() bool { return slices.Equal(l.snapshot(), want) })
}

// C15: namespaces that start and stop to match bring and take their objects.
func TestNamespacesByLabels(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	one, two := world.Namespace(t), world.Namespace(t)
	label := func(ns, value string) {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"team":%q}}}`, value)
		must(t, second(world.admin.CoreV1().Namespaces().Patch(t.Context(), ns, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})))
	}
	world.createConfigMap(one, "a", nil)
	world.createConfigMap(two, "a", nil)
	label(one, one) // the label is this test's own
	spec := configMaps("ignored when there are labels")
	spec.NamespaceLabels = &metav1.LabelSelector{MatchLabels: map[string]string{"team": one}}
	l := listenSynced(t, world.watcher(), spec)
	if got, want := l.snapshot(), []string{one + "/a null"}; !slices.Equal(got, want) {
		t.Fatalf("snapshot %s, want %s", got, want)
	}
	label(two, one)
	l.wants("Added " + two + "/a null")
	world.createConfigMap(two, "b", nil)
	l.wants("Added "+two+"/a null", "Added "+two+"/b null")
	label(two, "other")
	l.wants("Added "+two+"/a null", "Added "+two+"/b null", "Deleted "+two+"/a null", "Deleted "+two+"/b null")
	spec.NamespaceLabels = &metav1.LabelSelector{MatchLabels: map[string]string{"no": "such"}}
	if state := listenSynced(t, world.watcher(), spec).watch.State(); state.Phase != Complete || state.Objects != 0 {
		t.Errorf("no namespace matches: %+v, want complete and empty", state)
	}
	world.createConfigMap(two, "c", nil)
	world.createConfigMap(one, "d", nil)
	eventually(t, "d is there", func() bool { return len(l.snapshot()) == 2 })
	if got := l.lines(); len(got) > 5 {
		t.Errorf("told of a namespace that does not match: %s", got)
	}
}

// letRead gives a user verbs on the ConfigMaps of a namespace.
func (w *world) letRead(ns, user string, verbs ...string) {
	w.t.Helper()
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: verbs}},
	}
	must(w.t, second(w.admin.RbacV1().Roles(ns).Create(w.t.Context(), role, metav1.CreateOptions{})))
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "reader"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	must(w.t, second(w.admin.RbacV1().RoleBindings(ns).Create(w.t.Context(), binding, metav1.CreateOptions{})))
}

// C17: a namespace that begins to match and may not be listed leaves a snapshot that lacks its objects,
// and says so; with the permission the Watch is whole again, and says so.
func TestForbiddenNamespaceBeginsToMatch(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	one, two := world.Namespace(t), world.Namespace(t)
	user := "reader-" + one
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"list", "watch"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	must(t, second(world.admin.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})))
	t.Cleanup(func() {
		must(t, world.admin.RbacV1().ClusterRoles().Delete(context.Background(), user, metav1.DeleteOptions{}))
	})
	must(t, second(world.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})))
	t.Cleanup(func() {
		must(t, world.admin.RbacV1().ClusterRoleBindings().Delete(context.Background(), user, metav1.DeleteOptions{}))
	})
	label := func(ns, value string) {
		patch := fmt.Sprintf(`{"metadata":{"labels":{"read":%q}}}`, value)
		must(t, second(world.admin.CoreV1().Namespaces().Patch(t.Context(), ns, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})))
	}
	world.letRead(one, user, "list", "watch")
	world.createConfigMap(one, "a", nil)
	world.createConfigMap(two, "b", nil)
	label(one, one) // the label is this test's own
	spec := configMaps()
	spec.NamespaceLabels = &metav1.LabelSelector{MatchLabels: map[string]string{"read": one}}
	l := listenSynced(t, NewWatcher(world.as(user), testLog(t)), spec)
	eventually(t, "it is whole", func() bool { return l.watch.State().Whole() })

	label(two, one)
	eventually(t, "the denial is visible", func() bool {
		state := l.watch.State()
		return state.Phase == Forbidden && !state.Whole() && !state.Since.IsZero() &&
			strings.Contains(state.Message, "not allowed to list configmaps") && strings.Contains(state.Message, "in namespace "+two)
	})
	world.createConfigMap(one, "c", nil)
	l.wants("Added " + one + "/c null") // the others are watched as before
	world.letRead(two, user, "list", "watch")
	await(t, "synced again", l.synced)
	eventually(t, "it is whole again", func() bool { return l.watch.State().Whole() })
	if got := l.snapshot(); len(got) != 3 {
		t.Errorf("snapshot %s, want three objects", got)
	}
}

// C17: who may list and not watch does not know what changes: that is no snapshot for a hook.
func TestForbiddenToWatch(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	world.createConfigMap(ns, "a", nil)
	world.letRead(ns, "lister-"+ns, "list")
	l := listenSynced(t, NewWatcher(world.as("lister-"+ns), testLog(t)), configMaps(ns))
	eventually(t, "the denial is visible", func() bool {
		state := l.watch.State()
		return state.Phase == Forbidden && !state.Whole() && strings.Contains(state.Message, "to watch configmaps")
	})
}

// C16: a kind may come later, go, and come again.
func TestKindThatComesAndGoes(t *testing.T) {
	t.Parallel()
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	watcher := world.watcher()
	world.client.WatchKinds(t.Context()) // as Helm does, so that the definition is noticed at once
	gadget := newTestKind("Gadget")
	spec := Spec{Kind: gadget.name, Namespaces: []string{ns}, Filter: nothing}
	l := listen(t, watcher, spec)
	eventually(t, "the Watch waits", func() bool { return l.watch.State().Phase == WaitingForKind })
	if message := l.watch.State().Message; !strings.Contains(message, gadget.name) {
		t.Errorf("message %q does not name the kind", message)
	}

	world.define(gadget)
	await(t, "synced", l.synced)
	if state := l.watch.State(); state.APIVersion != "test.example.com/v1" || state.Kind != gadget.name {
		t.Errorf("state %+v, want %s of test.example.com/v1", state, gadget.name)
	}
	world.createOf(gadget, ns, "a")
	l.wants("Added " + ns + "/a null")
	shortName := listenSynced(t, watcher, Spec{Kind: gadget.short(), Namespaces: []string{ns}, Filter: nothing})
	if got := shortName.snapshot(); len(got) != 1 {
		t.Errorf("by the short name: %s", got)
	}

	world.undefine(gadget)
	l.wants("Added "+ns+"/a null", "Deleted "+ns+"/a null")
	eventually(t, "the Watch waits again", func() bool { return l.watch.State().Phase == WaitingForKind })

	world.define(gadget)
	eventually(t, "the Watch is complete again", func() bool { return l.watch.State().Phase == Complete })
	world.createOf(gadget, ns, "a")
	l.wants("Added "+ns+"/a null", "Deleted "+ns+"/a null", "Added "+ns+"/a null")
}

// testKind is a kind of the group test.example.com that one test alone defines.
type testKind struct{ name string }

func newTestKind(word string) testKind { return testKind{devclustertest.Kind(word)} }

func (k testKind) singular() string   { return strings.ToLower(k.name) }
func (k testKind) plural() string     { return k.singular() + "s" }
func (k testKind) short() string      { return "x" + k.singular() }
func (k testKind) definition() string { return k.plural() + ".test.example.com" }

func (k testKind) definitionText() string {
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":%q},
"spec":{"group":"test.example.com","scope":"Namespaced","names":{"kind":%q,"plural":%q,"singular":%q,"shortNames":[%q]},
"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`,
		k.definition(), k.name, k.plural(), k.singular(), k.short())
}

func (w *world) define(k testKind) {
	w.t.Helper()
	definition := &unstructured.Unstructured{}
	must(w.t, json.Unmarshal([]byte(k.definitionText()), &definition.Object))
	must(w.t, second(w.client.dynamic.Resource(crdResource()).Create(w.t.Context(), definition, metav1.CreateOptions{})))
	w.t.Cleanup(func() {
		_ = w.client.dynamic.Resource(crdResource()).Delete(context.Background(), k.definition(), metav1.DeleteOptions{})
	})
}

func (w *world) undefine(k testKind) {
	w.t.Helper()
	api := w.client.dynamic.Resource(crdResource())
	must(w.t, api.Delete(w.t.Context(), k.definition(), metav1.DeleteOptions{}))
	eventually(w.t, "the definition is gone", func() bool {
		_, err := api.Get(w.t.Context(), k.definition(), metav1.GetOptions{})
		return err != nil
	})
}

func (w *world) createOf(k testKind, namespace, name string) {
	w.t.Helper()
	resource := schema.GroupVersionResource{Group: "test.example.com", Version: "v1", Resource: k.plural()}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "test.example.com/v1", "kind": k.name, "metadata": map[string]any{"name": name},
	}}
	eventually(w.t, "the object is made", func() bool {
		_, err := w.client.dynamic.Resource(resource).Namespace(namespace).Create(w.t.Context(), object, metav1.CreateOptions{})
		return err == nil
	})
}

// An API server that is away at the start is no missing kind.
func TestNoAPIServerAtTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, os.WriteFile(path, []byte(kubeconfig), 0o600))
	client, err := Connect(Options{Kubeconfig: path, Server: "https://127.0.0.1:1"})
	must(t, err)
	l := listen(t, NewWatcher(client, testLog(t)), configMaps())
	eventually(t, "the reason is visible", func() bool {
		state := l.watch.State()
		return state.Phase == Syncing && strings.Contains(state.Message, "connection refused")
	})
}

// A wrong spec is refused at once.
func TestWrongSpec(t *testing.T) {
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Maybe"}}}
	for want, spec := range map[string]Spec{
		"kind is missing": {}, "an empty name": {Kind: "Pod", Names: []string{""}}, "Maybe": {Kind: "Pod", Labels: bad},
		"Maybe\"": {Kind: "Pod", NamespaceLabels: bad}, "can't understand 'x'": {Kind: "Pod", Fields: "x"},
	} {
		_, err := NewWatcher(&Client{}, nil).Watch(t.Context(), spec, nil, nil)
		wantError(t, err, want)
	}
}

// reflectors counts the running ones.
func (w *Watcher) reflectors() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sources)
}
