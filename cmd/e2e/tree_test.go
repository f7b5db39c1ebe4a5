package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A tree shows the objects of a release, what they own over others, and how all of them are doing; an object that is
// gone is missing, and a ring of owners ends.
func TestTreeOfAModule(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
webEnabled: true
plainEnabled: true
-- modules/010-plain/hooks/none.sh --
#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, onStartup: 1}'; fi
-- modules/020-web/templates/all.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: none}]}}
`)
	o := h.start().ready()
	settings, err := h.client.CoreV1().ConfigMaps(h.namespace).Get(h.ctx, "settings", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	create := func(name, ownerName string, owner *corev1.ConfigMap) *corev1.ConfigMap {
		created, err := h.client.CoreV1().ConfigMaps(h.namespace).Create(h.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Name: name, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: ownerName, UID: owner.UID}},
		}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return created
	}
	first := create("first", "settings", settings)
	second := create("second", "first", first)
	first.OwnerReferences = append(first.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "second", UID: second.UID})
	if _, err := h.client.CoreV1().ConfigMaps(h.namespace).Update(h.ctx, first, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	tree := func(want ...string) {
		t.Helper()
		h.eventually("the tree", func() error {
			out := o.command("tree", "web")
			var lines []string
			for line := range strings.Lines(out) {
				lines = append(lines, strings.Join(strings.Fields(line), " "))
			}
			all := strings.Join(lines, "\n")
			for _, text := range want {
				if !strings.Contains(all, text) {
					t.Logf("no %q in:\n%s", text, out)
					return errNotYet
				}
			}
			return nil
		})
	}
	ring := "ConfigMap " + h.namespace + "/settings Current -\n└─ConfigMap first Current -\n└─ConfigMap second Current -\nDeployment "
	tree("OBJECT STATE MESSAGE", ring, "Deployment "+h.namespace+"/web InProgress Available: 0/1\n└─ReplicaSet web-", "\n└─Pod web-", " InProgress ")
	h.runPods("web")
	tree("Deployment "+h.namespace+"/web Current -\n└─ReplicaSet web-", "Current -\n└─Pod web-")

	var data struct {
		Module  string
		Objects []struct {
			Kind  string
			Owned []struct {
				APIVersion, Kind, State string
				Owned                   []struct{ Kind, State string }
			}
		}
	}
	if err := json.Unmarshal([]byte(o.command("tree", "web", "-o", "json")), &data); err != nil {
		t.Fatal(err)
	}
	if data.Module != "web" || len(data.Objects) != 2 || len(data.Objects[1].Owned) != 1 || data.Objects[1].Owned[0].APIVersion != "apps/v1" ||
		len(data.Objects[1].Owned[0].Owned) != 1 || data.Objects[1].Owned[0].Owned[0].State != "Current" {
		t.Errorf("JSON: %+v", data)
	}
	if out := o.command("tree", "plain"); !strings.Contains(out, "Module plain has no objects") {
		t.Errorf("of a module without a chart: %q", out)
	}
	if out := o.command("tree", "wep"); !strings.Contains(out, "did you mean web?") {
		t.Errorf("of no module: %q", out)
	}
}
