package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
