package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/testkit/devclustertest"
)

// withSelf adds a second module without hooks to the fixture of web.txtar.
func (h *fixture) withSelf() {
	h.t.Helper()
	h.write("modules/values.yaml", "webEnabled: true\nselfEnabled: true\n")
	h.write("modules/020-self/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: self}\n")
}

// A start with an empty modules directory purges nothing. It is seen from every side, and the
// command that the Event prints allows the purge, without a restart. P1, P1.2, E10.
func TestEmptyModulesDirectoryPurgesNothing(t *testing.T) {
	h := newFixture(t, "web")
	h.withSelf()
	h.setConfig(map[string]string{"global": "any: text"})
	h.start().ready().terminate()
	h.mkdir("empty")

	o := h.start("MODULES_DIR=" + h.path("empty")).ready()
	why := "there is no module in " + h.path("empty")
	o.expect("WARN", "a purge is held back", "releases=[self web]", why)
	o.expect("converged, but a purge is held back", "held=[self web]", "modules=0")
	held := "the purge of 2 releases is held back, because " + why + ": self, web; to allow it: kubectl annotate"
	expectAll(t, o.dump(), held)
	expectAll(t, o.command("module", "list"), "There are no modules.", held)
	expectAll(t, o.command("module", "list", "-o", "json"), `"heldPurge"`, why)
	expectAll(t, o.command("plan"), "! keep self", "! keep web", why)
	expectAll(t, o.command("why", "web"), "web no longer has a directory", held)
	_, ready := get(o.public + "/readyz?verbose")
	expectAll(t, ready, "converge: idle, reload 1, ready; "+held)
	if got := o.metric("addon_operator_purges_held"); got != "2" {
		t.Errorf("the metric counts %s releases", got)
	}
	if status, _ := get(o.public + "/readyz"); status != http.StatusOK {
		t.Errorf("not ready: %d", status)
	}

	h.setConfig(map[string]string{"global": "any: change"}) // each reload decides the same
	o.expect("converged, but a purge is held back", "held=[self web]")
	if web, self := h.revisions("web"), h.revisions("self"); web != "1:deployed" || self != "1:deployed" {
		t.Errorf("the releases are %q and %q", web, self)
	}
	if n := o.count("WARN", "a purge is held back"); n != 1 {
		t.Errorf("the log warns %d times", n)
	}

	h.kubectl("annotate", "-n", h.namespace, "configmap", "addon-operator", "addon-operator/confirm-purge=web,self")
	o.expect("WARN", "a confirmation does not match the purge")
	h.awaitNoConfirmation()

	h.kubectl(strings.Fields(h.confirmation("PurgeHeld"))...)
	h.awaitRevisions("web", "")
	h.awaitRevisions("self", "")
	o.expect("converged", "modules=0")
	h.awaitNoConfirmation()
	h.awaitEvent("Normal PurgeConfirmed: ", onConfigMap)
	if got := o.metric("addon_operator_purges_held"); got != "0" {
		t.Errorf("after the purge the metric counts %s releases", got)
	}
	h.awaitJournal(startedJournal)
}

// confirmation is the command that the Event of a purge or an upgrade that is held back prints, without
// "kubectl".
func (h *fixture) confirmation(reason string) string {
	h.t.Helper()
	var command string
	h.eventually("an event with a command", func() error {
		list, err := h.client.CoreV1().Events(h.namespace).List(h.ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, e := range list.Items {
			if _, after, ok := strings.Cut(e.Message, "to allow it: kubectl "); ok && e.Reason == reason && e.Type == "Warning" {
				command = after
				return nil
			}
		}
		return fmt.Errorf("there are %v", eventTexts(list.Items))
	})
	return command
}

func (h *fixture) awaitNoConfirmation() {
	h.t.Helper()
	h.eventually("the end of the confirmation", func() error {
		cm, err := h.client.CoreV1().ConfigMaps(h.namespace).Get(h.ctx, "addon-operator", metav1.GetOptions{})
		if err == nil && len(cm.Annotations) > 0 {
			err = errors.New("the annotation is still there")
		}
		return err
	})
}

// The directory of a module is away by mistake, and one release may be purged: what holds data stays, and is that of
// the module again when the directory is back. A person who allows purges means all of it. P1, P2.2, E10.
func TestPurgeLeavesData(t *testing.T) {
	h := newFixture(t, "web")
	own, kind := h.namespace+"-own", "things."+h.namespace+".example.com"
	h.write("modules/values.yaml", "webEnabled: true\ndbEnabled: true\n")
	h.write("modules/020-db/templates/all.yaml", `
{apiVersion: v1, kind: ConfigMap, metadata: {name: db}, data: {a: b}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
---
apiVersion: v1
kind: Namespace
metadata: {name: `+own+`}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: `+kind+`}
spec:
  group: `+h.namespace+`.example.com
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
`)
	paths := []string{
		"/api/v1/namespaces/" + h.namespace + "/persistentvolumeclaims/data", "/api/v1/namespaces/" + own,
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + kind,
	}
	rest := h.client.Discovery().RESTClient()
	t.Cleanup(func() {
		for _, path := range paths {
			_ = rest.Delete().AbsPath(path).Do(context.Background()).Error()
		}
	})
	data := func() (uids string) { // of those that are not being deleted
		for _, path := range paths {
			var live metav1.PartialObjectMetadata
			text, err := rest.Get().AbsPath(path).Do(h.ctx).Raw()
			if err == nil && json.Unmarshal(text, &live) == nil && live.DeletionTimestamp == nil {
				uids += string(live.UID) + " "
			}
		}
		return uids
	}
	o := h.start().ready()
	h.awaitRevisions("db", "1:deployed")
	before := data()
	if len(strings.Fields(before)) != 3 {
		t.Fatalf("there are %q", before)
	}

	h.rename("modules/020-db", "away")
	expectAll(t, o.command("plan"), "purge db", "- ConfigMap")
	h.setConfig(map[string]string{"global": "any: change"})
	h.awaitRevisions("db", "")
	o.expect("WARN objects with data stay, because no person has allowed the purge", "release=db",
		"PersistentVolumeClaim "+h.namespace+"/data", "Namespace "+own, "CustomResourceDefinition "+kind)
	if h.configMap("db") != nil || data() != before {
		t.Errorf("the ConfigMap is %v, the data %q, and was %q", h.configMap("db"), data(), before)
	}
	h.rename("away", "modules/020-db")
	h.setConfig(map[string]string{"global": "any: other change"})
	h.awaitRevisions("db", "1:deployed")
	o.expect("INFO release", "module=db", "action=installed")
	if data() != before {
		t.Errorf("the data are %q, and were %q", data(), before)
	}
	o.terminate()

	h.rename("modules/020-db", "away")
	o = h.start("ADDON_OPERATOR_ALLOW_PURGE=true").ready()
	h.awaitRevisions("db", "")
	if left := data(); left != "" {
		t.Errorf("what a person has allowed to delete is there: %q", left)
	}
	if o.count("objects with data stay") > 0 {
		t.Error("the log says that objects stay")
	}
}

const vaultChart = `-- Chart.yaml --
{apiVersion: v2, name: vault, version: 1.0.0}
-- templates/cm.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ .Release.Name }}}, data: {key: precious}}
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

	h.createConfigMap("stranger", "precious", nil)
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
			if h.configMap(name)["key"] != "precious" {
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

// A record that another client writes for an installed module is no order to delete what it lists: the next run
// upgrades over it, and the objects of others stay, and are named. P2.
func TestUpgradeDoesNoHarm(t *testing.T) {
	h := newFixture(t, "web")
	o := h.start().ready()
	h.awaitRevisions("web", "1:deployed")

	other := devclustertest.Start(t).Namespace(t)
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

// Somebody writes a release record for a module that is switched off, which has no release: the hook of the record
// does not run, and the object that it names stays. P2.2, P2.3.
func TestForgedRecordOfDisabledModule(t *testing.T) {
	h := newFixture(t, "web")
	h.setConfig(map[string]string{"webEnabled": "false"})
	h.createConfigMap("stranger", "precious", nil)
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

// A value that guards a claim is renamed in the template, and not in values.yaml: the claim stays, and a person sees
// everywhere why, and how to allow it. Other modules go on. P1, P1.2, J15.
func TestUpgradeThatDropsAClaimIsHeld(t *testing.T) {
	const template = `
{apiVersion: v1, kind: ConfigMap, metadata: {name: db}, data: {size: {{ .Values.db.size | quote }}}}
---
{{ if .Values.db.GUARD }}
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Mi}}}
{{ end }}
`
	h := newFixture(t, "web")
	h.write("modules/values.yaml", "webEnabled: true\ndbEnabled: true\ndb: {persistence: true, size: small}\n")
	h.write("modules/005-db/templates/all.yaml", strings.ReplaceAll(template, "GUARD", "persistence"))
	o := h.start().ready()
	h.awaitRevisions("db", "1:deployed")

	h.write("modules/005-db/templates/all.yaml", strings.ReplaceAll(template, "GUARD", "storage"))
	claim := "PersistentVolumeClaim " + h.namespace + "/data"
	held := "the upgrade is held back, because their data would be deleted with them: they are not in the chart any more: " + claim + "; to allow it: kubectl annotate"
	expectAll(t, o.command("plan"), "the upgrade is held back, because their data", claim, "- PersistentVolumeClaim")
	h.setConfig(map[string]string{"global": "any: change", "web": "size: big"})
	o.expect("WARN an upgrade is held back until a person allows it", "module=db", claim)
	o.expect("converged", "modules=2")
	h.awaitConfigMap("web", "size", "big")
	h.awaitRevisions("db", "1:deployed")
	expectAll(t, o.command("module", "list"), "  held  ", held)
	expectAll(t, o.command("status"), held)
	expectAll(t, o.command("why", "db"), "module db: held: "+held)
	_, page := get(o.public + "/")
	if strings.Contains(page, "to allow it") {
		t.Error("the public page has the command")
	}
	exists := func() bool {
		live, err := h.client.CoreV1().PersistentVolumeClaims(h.namespace).Get(h.ctx, "data", metav1.GetOptions{})
		return err == nil && live.DeletionTimestamp == nil
	}
	if !exists() {
		t.Fatal("the claim is deleted")
	}

	// The edit is taken back.
	h.write("modules/005-db/templates/all.yaml", strings.ReplaceAll(template, "GUARD", "persistence"))
	h.setConfig(map[string]string{"global": "any: other change"})
	o.expect("converged", "cause=ConfigMap: global.any in ConfigMap") // only the end of the reload takes the hold back

	h.write("modules/005-db/templates/all.yaml", strings.ReplaceAll(template, "GUARD", "storage"))
	h.setConfig(map[string]string{"global": "any: third change"})
	o.expect("WARN an upgrade is held back until a person allows it", "module=db")
	h.kubectl(strings.Fields(h.confirmation("UpgradeHeld"))...)
	o.expect("INFO objects that have left the chart are deleted", claim)
	o.expect("INFO release", "module=db", "action=upgraded", "revision=2")
	h.awaitNoConfirmation()
	if exists() {
		t.Error("the claim stays, though a person has allowed to delete it")
	}
}

// An object that a record has in a version that is no longer served is deleted with its module, and one whose kind
// has no version is named in an Event. H12.
func TestDeletedInAnotherVersion(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
scalerEnabled: true
-- modules/010-scaler/templates/all.yaml --
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: scaler}
spec: {maxReplicas: 9, scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: none}}
`)
	h.start().ready().terminate()
	h.rewriteRecord("scaler", 1, func(text string) string { // as an older Kubernetes had it
		return strings.ReplaceAll(text, "autoscaling/v2", "autoscaling/v2beta2") + "---\napiVersion: gone.example.com/v1\nkind: Gone\nmetadata: {name: lost}\n"
	})
	h.setConfig(map[string]string{"scalerEnabled": "false"})
	o := h.start().ready()
	o.expect("WARN objects cannot be deleted", "Gone lost")
	h.awaitRevisions("scaler", "")
	h.awaitEvent("Warning ObjectsStay", "release scaler: objects cannot be deleted", "Gone lost")
	list, err := h.client.AutoscalingV2().HorizontalPodAutoscalers(h.namespace).List(h.ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("what the module had: %v, %v", list, err)
	}
}

// claimUID is that of a claim that is not being deleted.
func (h *fixture) claimUID(name string) string {
	h.t.Helper()
	claim, err := h.client.CoreV1().PersistentVolumeClaims(h.namespace).Get(h.ctx, name, metav1.GetOptions{})
	must(h.t, err)
	if claim.DeletionTimestamp != nil {
		h.t.Fatalf("claim %s is being deleted", name)
	}
	return string(claim.UID)
}

// A module that is renamed keeps its objects, and with them its data: the module of the new name takes them over.
// While that one fails, the release of the old name is not purged. H7, P1.
func TestModuleIsRenamed(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
aaEnabled: true
abEnabled: true
acEnabled: true
-- modules/010-aa/templates/all.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: shared}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`)
	isolate := "ADDON_OPERATOR_MODULE_FAILURE_POLICY=isolate"
	h.start(isolate).ready().terminate()
	shared, data := h.configMapUID("shared"), h.claimUID("data")
	same := func(when string) {
		t.Helper()
		if h.configMapUID("shared") != shared || h.claimUID("data") != data {
			t.Errorf("%s objects are others", when)
		}
	}

	h.rename("modules/010-aa", "modules/010-ab")
	o := h.start(isolate).ready()
	h.awaitRevisions("aa", "")
	h.awaitRevisions("ab", "1:deployed")
	same("after a rename")
	o.expect("objects are taken over from a release that has no module directory any more", "from=aa")
	o.terminate()

	h.rename("modules/010-ab", "modules/010-ac")
	template := h.read("modules/010-ac/templates/all.yaml")
	h.write("modules/010-ac/templates/all.yaml", template+"---\n{{ fail \"not yet\" }}\n")
	out, _, _ := h.plan(o.env, ".")
	expectAll(t, out, "ac", "not yet")
	o = h.start(isolate)
	o.expect("task failed; the next reload of all modules tries it again", "PurgeRelease", "it is held back: the last run of module ac has not succeeded")
	h.awaitRevisions("ab", "1:deployed")
	same("while the new module fails,")
	h.write("modules/010-ac/templates/all.yaml", template)
	out, _, _ = h.plan(o.env)
	if strings.Contains(out, "delete PersistentVolumeClaim") || strings.Contains(out, "belongs to release") {
		t.Errorf("the plan is\n%s", out)
	}
	o.command("retry", "ac")
	h.awaitRevisions("ac", "1:deployed")
	h.setConfig(map[string]string{"global": "reload: 1"}) // until then the new files are not in force, and the purge waits
	h.awaitRevisions("ab", "")
	same("after another rename")
	if n := o.count("ERROR", "belongs to release"); n != 0 {
		t.Errorf("the log has %d such errors", n)
	}
}
