package helm

import (
	"context"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// elsewhere is a module whose release lies in a namespace that does not exist yet.
func (f *fixture) elsewhere(suffix string) Module {
	f.Helper()
	m := Module{Name: "web", Key: "web", Dir: f.TempDir(), Namespace: f.namespace + "-" + suffix, Values: map[string]any{}}
	write(f.T, m, "templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {at: {{ .Release.Namespace }}}\n")
	f.Cleanup(func() {
		_ = f.kube.CoreV1().Namespaces().Delete(context.Background(), m.Namespace, metav1.DeleteOptions{})
	})
	return m
}

func (f *fixture) hasConfigMap(namespace string) bool {
	f.Helper()
	_, err := f.kube.CoreV1().ConfigMaps(namespace).Get(f.Context(), "web", metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		f.Fatal(err)
	}
	return err == nil
}

func (f *fixture) wantReleases(want string) {
	f.Helper()
	got, err := f.client.Releases(f.Context())
	if err != nil || strings.Join(got, " ") != want {
		f.Errorf("releases are %q, %v, want %q", got, err, want)
	}
}

// H20: the namespace is created, and holds the release, its objects and nothing else; after a restart nothing is to
// do, and an absent object is found. A removed module leaves a release that is found and purged; the namespace stays.
func TestNamespaceOfModule(t *testing.T) {
	f := start(t)
	m := f.elsewhere("own")
	if p, err := f.client.Plan(f.Context(), m); err != nil || p.Action != Installed || len(p.Changes) != 2 {
		t.Errorf("plan: %+v, %v", p, err)
	}
	f.apply(m, Installed, 1)
	if !f.hasConfigMap(m.Namespace) || f.hasConfigMap(f.namespace) {
		t.Error("the object is not in the namespace of the module")
	}
	f.restart()
	f.wantReleases("web")
	f.apply(m, Skipped, 1)
	if drifted, known, err := f.client.Drift(f.Context(), m); err != nil || !known || len(drifted) > 0 {
		t.Errorf("drift: %v, %v, %v", drifted, known, err)
	}
	must(t, f.kube.CoreV1().ConfigMaps(m.Namespace).Delete(f.Context(), "web", metav1.DeleteOptions{}))
	f.eventually(func() bool { gone := f.news.take(); return len(gone) == 1 && gone[0].Namespace == m.Namespace })
	f.apply(m, Upgraded, 2)

	f.restart() // and the module is gone
	f.wantReleases("web")
	if ours, err := f.client.Ours(f.Context(), []string{"web"}); err != nil || len(ours) != 1 {
		t.Errorf("ours are %v, %v", ours, err)
	}
	if existed, err := f.client.Purge(f.Context(), "web", Purging{}); err != nil || !existed {
		t.Errorf("purge: %v, %v", existed, err)
	}
	f.wantReleases("")
	if f.hasConfigMap(m.Namespace) {
		t.Error("the object is left")
	}
	if _, err := f.kube.CoreV1().Namespaces().Get(f.Context(), m.Namespace, metav1.GetOptions{}); err != nil {
		t.Errorf("the namespace: %v", err)
	}
}

// H20: a release is not moved. It stays where it is until somebody disables the module.
func TestNamespaceOfModuleIsEdited(t *testing.T) {
	f := start(t)
	refused := func(m Module, parts ...string) {
		t.Helper()
		for _, err := range []error{second(f.client.Apply(f.Context(), m)), second(f.client.Plan(f.Context(), m))} {
			wantError(t, err, append(parts, "a release is not moved")...)
		}
	}
	m := f.elsewhere("first")
	f.apply(m, Installed, 1)
	second := m
	second.Namespace = f.namespace + "-second"
	f.restart()
	refused(second, "it is in namespace "+m.Namespace, "now names "+second.Namespace, "set namespace: "+m.Namespace+" in module.yaml again")
	home := m
	home.Namespace = ""
	refused(home, "it is in namespace "+m.Namespace, "now names "+f.namespace)
	f.uninstall("web", true)
	if f.hasConfigMap(m.Namespace) {
		t.Error("the release was not uninstalled where it was")
	}
	f.apply(home, Installed, 1)
	refused(m, "it is in namespace "+f.namespace, "remove namespace from module.yaml again")
	f.uninstall("web", true)
	if f.hasConfigMap(f.namespace) {
		t.Error("the release was not uninstalled where it was")
	}
}

// H20, P2: a release of the same name elsewhere is of others: it is neither listed nor removed, and that of another
// operator is not taken.
func TestNamespaceWithReleasesOfOthers(t *testing.T) {
	f := start(t)
	m := f.elsewhere("shared")
	f.apply(m, Installed, 1)
	f.uninstall("web", true)
	other, err := New(Options{Config: f.config, Namespace: f.cluster.Namespace(t)})
	must(t, err)
	must(t, second(other.Apply(f.Context(), m)))
	f.restart()
	f.wantReleases("")
	wantError(t, second(f.client.Apply(f.Context(), m)), "belongs to the addon-operator in namespace "+other.root.options.Namespace)
	if existed, err := f.client.Purge(f.Context(), "web", Purging{}); err != nil || existed || !f.hasConfigMap(m.Namespace) {
		t.Errorf("purge: %v, %v", existed, err)
	}
}

// H20, P2: what a person has installed in the operator's namespace is not removed with a module of that name whose
// release is, or would be, elsewhere.
func TestNamespaceOfModuleWithReleaseOfAPerson(t *testing.T) {
	f := start(t)
	theirs := moduleOf(t, "web", "-- templates/cm.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: web}}\n")
	f.helmInstall("web", theirs)
	m := f.elsewhere("own")
	remains := func(existed bool) {
		t.Helper()
		if p, err := f.client.PlanRemoval(f.Context(), m, nil); err != nil || (p.Action == Uninstalled) != existed {
			t.Errorf("plan: %+v, %v", p, err)
		}
		if is, err := f.client.Uninstall(f.Context(), m); err != nil || is != existed {
			t.Errorf("uninstall: %v, %v", is, err)
		}
		if !f.hasConfigMap(f.namespace) {
			t.Fatal("the object of a person is gone")
		}
	}
	f.caughtUp()
	remains(false)
	f.apply(m, Installed, 1)
	remains(true)
	remains(false)
}

// H20: somebody deletes the pointer, and then the directory of the module: this process finds the release all the
// same.
func TestPointerIsDeleted(t *testing.T) {
	f := start(t)
	m := f.elsewhere("lost")
	f.apply(m, Installed, 1)
	secrets := f.kube.CoreV1().Secrets(f.namespace)
	must(t, secrets.Delete(f.Context(), pointerName("web"), metav1.DeleteOptions{}))
	f.wantReleases("web")
	if existed, err := f.client.Purge(f.Context(), "web", Purging{}); err != nil || !existed {
		t.Errorf("purge: %v, %v", existed, err)
	}
	f.wantReleases("")
	if _, err := secrets.Get(f.Context(), pointerName("web"), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the pointer of nothing: %v", err)
	}
}

// H20: a namespace that is not there and may not be made is named, with the module and the fix.
func TestNamespaceMayNotBeCreated(t *testing.T) {
	f := start(t)
	m := f.elsewhere("none")
	limited := f.limited(
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets", "configmaps"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
	)
	invalid := m
	invalid.Namespace = "No-Namespace"
	wantError(t, second(f.client.Apply(f.Context(), invalid)), "create namespace No-Namespace of the release")
	want := "release web: create release record " + secretName("web", 1) + `: namespaces "` + m.Namespace + `" not found; create it`
	f.eventually(func() bool { // the server hears of the rules by watches
		_, err := limited.Apply(f.Context(), m)
		return err != nil && strings.HasPrefix(err.Error(), want)
	})
}
