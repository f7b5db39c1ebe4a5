package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const vaultChart = `-- Chart.yaml --
{apiVersion: v2, name: vault, version: 1.0.0}
-- templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ .Release.Name }}}, data: {precious: data}}
`

// craft writes a release record that nothing was installed for: it looks like one of an
// operator, names somebody else's ConfigMap, and brings a hook that makes a cluster-admin.
func (h *fixture) craft(name, stranger, binding string) {
	h.t.Helper()
	rel := &release.Release{
		Name: name, Namespace: h.namespace, Version: 1,
		Info:     &release.Info{Status: release.StatusDeployed},
		Chart:    &chart.Chart{Metadata: &chart.Metadata{APIVersion: "v2", Name: name, Version: "1.0.0"}},
		Labels:   map[string]string{"moduleChecksum": "0123456789abcdef"},
		Manifest: "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + stranger + "}\n",
		Hooks: []*release.Hook{{
			Name: binding, Kind: "ClusterRoleBinding", Path: name + "/templates/hook.yaml",
			Events: []release.HookEvent{release.HookPreDelete, release.HookPostDelete},
			Manifest: "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: " + binding + "}\n" +
				"roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}\n" +
				"subjects: [{kind: ServiceAccount, name: nobody, namespace: " + h.namespace + "}]\n",
			DeletePolicies: []release.HookDeletePolicy{release.HookBeforeHookCreation},
		}},
	}
	records := driver.NewSecrets(h.client.CoreV1().Secrets(h.namespace))
	must(h.t, records.Create("sh.helm.release.v1."+name+".v1", rel))
}

// A start purges the release of a removed module and a crafted record, and does no harm: a
// person's release and a stranger's object stay, and no hook of a record runs. P2, E10, G7, H6.
func TestPurgeDoesNoHarm(t *testing.T) {
	h := newFixture(t, "web")
	h.start().ready().terminate()
	h.awaitRevisions("web", "1:deployed")
	h.remove("modules/010-web")

	stranger := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "stranger"}, Data: map[string]string{"precious": "data"}}
	must(t, second(h.client.CoreV1().ConfigMaps(h.namespace).Create(h.ctx, stranger, metav1.CreateOptions{})))
	person{fixture: h, namespace: h.namespace, driver: "secret"}.install("vault", vaultChart, "")
	binding := "harm-" + h.namespace
	h.craft("crafted", "stranger", binding)

	o := h.start("ADDON_OPERATOR_ALLOW_PURGE=yes").ready() // the root is empty (P1)
	o.expect("INFO releases that were not installed by an addon-operator are left alone", "releases=[vault]")
	o.expect("modules discovered", "purge=[web crafted]")
	o.expect("WARN objects do not name this release as their owner", "release=crafted", "objects=[ConfigMap "+h.namespace+"/stranger]")
	h.awaitRevisions("web", "")
	h.awaitRevisions("crafted", "")
	h.awaitJournal(startedJournal)
	if h.configMap("web") != nil {
		t.Error("the object of the purged module is still there")
	}
	harmless := func() {
		t.Helper()
		for _, name := range []string{"stranger", "vault"} {
			if h.configMap(name)["precious"] != "data" {
				t.Errorf("ConfigMap %s is gone", name)
			}
		}
		if got := h.revisions("vault"); got != "1:deployed" {
			t.Errorf("the person's release has revisions %q", got)
		}
		if _, err := h.client.RbacV1().ClusterRoleBindings().Get(h.ctx, binding, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("the hook of the crafted record has run: %v", err)
			_ = h.client.RbacV1().ClusterRoleBindings().Delete(h.ctx, binding, metav1.DeleteOptions{})
		}
	}
	harmless()

	// Reloads do not say it again, and a plan knows it, too.
	h.setConfig(map[string]string{"global": "any: change"})
	o.expect("converged", "cause=ConfigMap")
	if n := o.count("not installed by an addon-operator"); n != 1 {
		t.Errorf("the log names the person's release %d times, want once", n)
	}
	if plan := o.command("plan"); !strings.Contains(plan, "Nothing would be done") || strings.Contains(plan, "vault") {
		t.Errorf("the plan speaks of the person's release:\n%s", plan)
	}
	harmless()
}

// A record that another client writes for an installed module is no order to delete what it lists: the next run upgrades
// over it, and the objects of others stay, and are named. P2.
func TestUpgradeDoesNoHarm(t *testing.T) {
	h := newFixture(t, "web")
	o := h.start().ready()
	h.awaitRevisions("web", "1:deployed")

	other := h.namespace + "-other"
	must(t, second(h.client.CoreV1().Namespaces().Create(h.ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}}, metav1.CreateOptions{})))
	t.Cleanup(func() { _ = h.client.CoreV1().Namespaces().Delete(context.Background(), other, metav1.DeleteOptions{}) })
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "stranger"}}
	must(t, second(h.client.CoreV1().Secrets(other).Create(h.ctx, secret, metav1.CreateOptions{})))
	rel := &release.Release{
		Name: "web", Namespace: h.namespace, Version: 2,
		Info:  &release.Info{Status: release.StatusDeployed},
		Chart: &chart.Chart{Metadata: &chart.Metadata{APIVersion: "v2", Name: "web", Version: "1.0.0"}},
		Manifest: "---\napiVersion: v1\nkind: Secret\nmetadata: {name: stranger, namespace: " + other + "}\n" +
			"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: " + other + "}\n",
	}
	must(t, driver.NewSecrets(h.client.CoreV1().Secrets(h.namespace)).Create("sh.helm.release.v1.web.v2", rel))
	h.setConfig(map[string]string{"global": "any: change"}) // a reload lists the records

	o.expect("WARN objects do not name this release as their owner", "release=web", "Secret "+other+"/stranger", "Namespace "+other)
	o.expect("INFO release", "module=web", "action=upgraded", "revision=3")
	if _, err := h.client.CoreV1().Secrets(other).Get(h.ctx, "stranger", metav1.GetOptions{}); err != nil {
		t.Errorf("the Secret in another namespace: %v", err)
	}
	if ns, err := h.client.CoreV1().Namespaces().Get(h.ctx, other, metav1.GetOptions{}); err != nil || ns.DeletionTimestamp != nil {
		t.Errorf("the namespace: deleted at %v, %v", ns.DeletionTimestamp, err)
	}
	if h.configMap("web") == nil {
		t.Error("the object of the module is gone")
	}
}

// rewriteRecord changes the manifest in a release record.
func (h *fixture) rewriteRecord(name string, version int, change func(string) string) {
	h.t.Helper()
	records := driver.NewSecrets(h.client.CoreV1().Secrets(h.namespace))
	key := fmt.Sprintf("sh.helm.release.v1.%s.v%d", name, version)
	rel, err := records.Get(key)
	must(h.t, err)
	rel.Manifest = change(rel.Manifest)
	must(h.t, records.Update(key, rel))
}

// Somebody writes a release record for a module that is switched off, which has no release: the hook of the record does
// not run, and the object that it names stays. P2.2, P2.3.
func TestForgedRecordOfDisabledModule(t *testing.T) {
	h := newFixture(t, "web")
	h.setConfig(map[string]string{"webEnabled": "false"})
	stranger := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "stranger"}, Data: map[string]string{"precious": "data"}}
	must(t, second(h.client.CoreV1().ConfigMaps(h.namespace).Create(h.ctx, stranger, metav1.CreateOptions{})))
	binding := "harm-" + h.namespace
	h.craft("web", "stranger", binding)
	h.start().ready()
	h.awaitRevisions("web", "")
	if _, err := h.client.RbacV1().ClusterRoleBindings().Get(h.ctx, binding, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the hook of the forged record has run: %v", err)
		_ = h.client.RbacV1().ClusterRoleBindings().Delete(h.ctx, binding, metav1.DeleteOptions{})
	}
	if h.configMap("stranger") == nil {
		t.Error("the object of a stranger is gone")
	}
}
