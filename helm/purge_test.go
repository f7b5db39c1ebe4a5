package helm

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"addon-operator/helm/charts"
)

// helmInstall is what a person does with the helm command line.
func (f *fixture) helmInstall(name string, m Module) {
	f.Helper()
	install := action.NewInstall(f.stock())
	install.ReleaseName, install.Namespace = name, f.namespace
	loaded, err := new(charts.Cache).Load(charts.Module{Name: m.Name, Dir: m.Dir})
	if err == nil {
		_, err = install.Run(loaded.Copy(), m.Values)
	}
	if err != nil {
		f.Fatalf("helm install: %v", err)
	}
}

// craft changes what a record says, as somebody who may write Secrets can.
func (f *fixture) craft(name string, version int, change func(s *corev1.Secret, rel *release.Release)) {
	f.Helper()
	f.editRecord(name, version, func(s *corev1.Secret) {
		rel, err := decodeRelease(s.Data["release"])
		must(f, err)
		change(s, rel)
		s.Data["release"], err = new(encoder).encode(rel)
		must(f, err)
	})
}

func (f *fixture) wantOurs(want ...string) {
	f.Helper()
	f.caughtUp()
	all, err := f.client.Releases(f.Context())
	must(f, err)
	ours, err := f.client.Ours(f.Context(), append(all, "nothing"))
	if err != nil || !slices.Equal(ours, want) {
		f.Errorf("ours = %q, %v; want %q", ours, err, want)
	}
}

func (f *fixture) purge(name string, want bool) {
	f.Helper()
	existed, err := f.client.Purge(f.Context(), name, Purging{})
	if err != nil || existed != want {
		f.Fatalf("purge: existed %v, %v; want %v\nlog:\n%s", existed, err, want, f.log)
	}
}

// P2.1, E10: a purge takes releases that an operator has installed, and no others. A person's
// release becomes the operator's when a module adopts it (H7).
func TestPurgeOnlyOurs(t *testing.T) {
	f := start(t)
	m, old, vault := module(t, "simple"), module(t, "simple"), module(t, "simple")
	old.Name, vault.Name = "old", "vault"
	f.apply(m, Installed, 1)
	f.helmInstall("vault", vault)
	f.wantOurs("simple")
	f.purge("vault", false)
	if p, err := f.client.PlanRemoval(t.Context(), Module{Name: "vault"}, &Purging{}); err != nil || p.Action != "" || len(p.Changes) > 0 {
		t.Errorf("plan of a purge: %+v, %v", p, err)
	}
	f.wantRevisions("vault", "1 deployed")
	f.kept("an object of a person's release is gone", "vault-a")
	if log := f.log.String(); !strings.Contains(log, "it was not installed by an addon-operator") {
		t.Errorf("the log does not say that the release is left alone:\n%s", log)
	}

	// An older operator kept its checksum among the values (H6).
	f.apply(old, Installed, 1)
	f.craft("old", 1, func(s *corev1.Secret, rel *release.Release) {
		rel.Config[legacyChecksumKey] = s.Labels[ChecksumLabel]
		maps.DeleteFunc(s.Labels, func(label, _ string) bool { return label == ChecksumLabel || label == revisionLabel })
	})
	f.wantOurs("old", "simple")
	f.restart()
	f.wantOurs("old", "simple")
	f.purge("old", true)
	f.wantRevisions("old")
	f.editRecord("vault", 1, func(s *corev1.Secret) { s.Data["release"] = []byte("rubbish") })
	f.wantOurs("simple")
	f.purge("vault", false)
	f.wantRevisions("vault", "1 deployed")

	// A person repairs a release with the helm command line: it stays the operator's.
	f.apply(m.with("text", "two"), Upgraded, 2)
	rollback := action.NewRollback(f.stock())
	rollback.Version = 1
	must(t, rollback.Run("simple"))
	f.wantOurs("simple")
	f.purge("simple", true)
	f.purge("simple", false)

	f.helmInstall("simple", m)
	f.wantOurs()
	f.apply(m.with("text", "adopted"), Upgraded, 2)
	f.wantOurs("simple")
	f.purge("simple", true)
	f.wantRevisions("simple")
	f.gone("an object of the adopted release is left", "simple-a")
}

// harm is what a crafted record adds to a release: objects of others, and a hook.
const harm = `
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: stranger}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: neighbour}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: elsewhere}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: nowhere}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: kept}}
`

// crafted is a release whose record names strangers' objects and brings a hook.
func crafted(f *fixture) {
	f.Helper()
	f.apply(module(f, "simple"), Installed, 1)
	owned := func(release, namespace string) map[string]string {
		return map[string]string{ownerName: release, ownerNamespace: namespace}
	}
	f.create("stranger", map[string]string{"precious": "data"}, nil)
	f.create("neighbour", nil, owned("other", f.namespace))
	f.create("elsewhere", nil, owned("simple", "elsewhere"))
	kept := owned("simple", f.namespace)
	kept["helm.sh/resource-policy"] = "keep"
	f.create("kept", nil, kept)
	f.craft("simple", 1, func(_ *corev1.Secret, rel *release.Release) {
		rel.Manifest += harm
		rel.Hooks = append(rel.Hooks, &release.Hook{
			Name: "hooked", Kind: "ConfigMap", Path: "simple/templates/hook.yaml", Events: []release.HookEvent{release.HookPreDelete, release.HookPostDelete},
			Manifest:       "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hooked}\n",
			DeletePolicies: []release.HookDeletePolicy{release.HookBeforeHookCreation},
		})
	})
	f.caughtUp()
}

// wantHarmless looks whether the objects of others are there, and those of the release gone.
func wantHarmless(f *fixture) {
	f.Helper()
	f.wantRevisions("simple")
	f.kept("", "stranger", "neighbour", "elsewhere", "kept")
	f.gone("", "simple-a", "simple-b")
	var told []string
	for line := range strings.Lines(f.log.String()) {
		if strings.Contains(line, "they stay") {
			told = append(told, line)
		}
	}
	if len(told) != 1 {
		f.Fatalf("%d lines tell of objects that stay, want 1: %q", len(told), told)
	}
	for _, want := range []string{"level=WARN", "ConfigMap " + f.namespace + "/stranger", "neighbour", "elsewhere", "kept"} {
		if !strings.Contains(told[0], want) {
			f.Errorf("no %q in %s", want, told[0])
		}
	}
	if strings.Contains(told[0], "nowhere") {
		f.Errorf("an object that does not exist stays: %s", told[0])
	}
}

// P2.2, P2.3, G7: a purge of a crafted record runs no hooks and deletes only objects whose annotations
// name the release.
func TestPurgeOfCraftedRecord(t *testing.T) {
	f := start(t)
	crafted(f)
	p, err := f.client.PlanRemoval(t.Context(), Module{Name: "simple"}, &Purging{})
	if err != nil || p.Action != Uninstalled || len(p.Hooks) > 0 {
		t.Errorf("plan: %+v, %v", p, err)
	}
	expectText(t, "plan of a purge", verbs(p.Changes), "delete ConfigMap simple-a, delete ConfigMap simple-b")
	f.purge("simple", true)
	wantHarmless(f)
	f.gone("a hook of a purged release has run", "hooked")
}

// P2.2, P2.3, H12, H14: the delete of a module runs the hooks that its chart has, and not those that only a record
// has or that a record has changed. It is as careful with objects of others as a purge.
func TestUninstallOfCraftedRecord(t *testing.T) {
	f := start(t)
	crafted(f)
	m := module(t, "simple")
	write(t, m, "templates/hook.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-chart, annotations: {helm.sh/hook: pre-delete}}\ndata: {from: chart}\n")
	f.craft("simple", 1, func(_ *corev1.Secret, rel *release.Release) {
		rel.Hooks = append(rel.Hooks, &release.Hook{
			Name: "of-chart", Kind: "ConfigMap", Path: "simple/templates/hook.yaml", Events: []release.HookEvent{release.HookPreDelete},
			Manifest: "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: of-chart}\ndata: {from: record}\n",
		}, &release.Hook{ // with a policy that deletes what is there
			Name: "stranger", Kind: "ConfigMap", Path: "simple/templates/more.yaml", Events: []release.HookEvent{release.HookPreDelete},
			Manifest:       "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: stranger}\n",
			DeletePolicies: []release.HookDeletePolicy{release.HookBeforeHookCreation, release.HookSucceeded},
		})
	})
	f.caughtUp()
	plan, err := f.client.PlanRemoval(t.Context(), m, nil)
	if err != nil || len(plan.Hooks) != 1 || plan.Hooks[0].Object != "ConfigMap of-chart" {
		t.Errorf("hooks in the plan: %+v, %v", plan.Hooks, err)
	}
	if existed, err := f.client.Uninstall(t.Context(), m); err != nil || !existed {
		t.Fatalf("uninstall: %v, %v", existed, err)
	}
	wantHarmless(f)
	f.gone("a hook that only the record has ran", "hooked")
	if got := f.configMap("of-chart")["from"]; got != "chart" {
		t.Errorf("the hook of the chart is from %q", got)
	}
}

// P2.3: a delete hook may protect data, so a release that has one stays while its chart does not render.
func TestUninstallNeedsTheDeleteHooks(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "guarded", `
-- templates/all.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: guarded}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: guard, annotations: {helm.sh/hook: pre-delete}}
data: {account: {{ required "the account is unknown" .Values.guarded.account }}}
`)
	known := m.with("account", "one")
	f.apply(known, Installed, 1)
	wantError(t, second(f.client.Uninstall(t.Context(), m)), "the account is unknown")
	f.kept("an object is gone", "guarded")
	f.wantRevisions("guarded", "1 deployed")
	must(t, second(f.client.Uninstall(t.Context(), known)))
	if f.configMap("guard")["account"] != "one" || f.configMap("guarded") != nil {
		t.Error("the hook did not run, or an object is left")
	}
}

// P2.2: an object that may not be read is not deleted, and its release stays until it may.
func TestPurgeMayNotRead(t *testing.T) {
	f := start(t)
	f.apply(module(t, "simple"), Installed, 1)
	poor := f.limited(
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"*"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"delete"}},
	)
	f.eventually(func() bool { // the authorizer learns of the role a moment later
		_, err := poor.Releases(t.Context())
		return err == nil
	})
	wantError(t, second(poor.Purge(t.Context(), "simple", Purging{})), "may not read")
	if f.configMap("simple-a") == nil || len(f.revisions("simple")) != 1 {
		t.Error("something is gone")
	}
	f.purge("simple", true)
	f.wantRevisions("simple")
}
