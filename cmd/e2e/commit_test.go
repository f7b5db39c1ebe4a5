package e2e

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A hook appends to a list in the ConfigMap and changes objects. What cannot be right is refused
// before the append; what the API server refuses is tried again without another append, and
// without another run. D26, K3, K5, K7.
func TestObjectPatchesThatFail(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
listsEnabled: true
-- modules/010-lists/hooks/append.sh --
#!/usr/bin/env bash
if [[ $1 == --config ]]; then
	echo '{"configVersion": "v1", "kubernetes": [{"name": "triggers", "kind": "ConfigMap", "queue": "lists", "executeHookOnSynchronization": false,
		"labelSelector": {"matchLabels": {"app": "watched"}}, "namespace": {"nameSelector": {"matchNames": ["'$NAMESPACE'"]}}}]}'
	exit
fi
echo run >> $OUT/runs
echo '{"op": "add", "path": "/lists/names/-", "value": "x"}' > $CONFIG_VALUES_JSON_PATCH_PATH
echo '{"name": "appended", "action": "add", "value": 1}' > $METRICS_PATH
cp $OUT/patch $KUBERNETES_PATCH_PATH
`)
	h.setConfig(map[string]string{"lists": "names: []"})
	h.write("out/patch", `{"operation": "Delete", "kind": "Secrett", "namespace": "d", "name": "s"}`)
	o := h.start().ready()
	appended := func() int { return strings.Count(h.config()["lists"], "- x") }
	// retry ends the waiting, as each change of the configuration does.
	retry := func(number int) { h.setConfig(map[string]string{"global": fmt.Sprint("retry: ", number)}) }
	h.createConfigMap("trigger", "x", map[string]string{"app": "watched"})
	o.expect("ERROR", "task failed, will retry", "append.sh", "Delete Secrett d/s: find Secrett: the API server has no such kind")
	h.write("out/patch", `{"operation": "MergePatch", "kind": "ConfigMap", "name": "later", "mergePatch": {}}`)
	retry(1)
	o.expect("ERROR", "task failed, will retry", "append.sh", "MergePatch ConfigMap later: ConfigMap is namespaced: set the namespace")
	if n := appended(); n != 0 {
		t.Errorf("%d elements after two refused results, want none", n)
	}

	h.write("out/patch", strings.ReplaceAll(`
{"operation": "Create", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "$NS", "generateName": "once-"}}}
{"operation": "MergePatch", "kind": "ConfigMap", "namespace": "$NS", "name": "later", "mergePatch": {"data": {"k": "v"}}}`, "$NS", h.namespace))
	retry(2)
	o.expect("ERROR", "task failed, will retry", "append.sh", "object patches: MergePatch ConfigMap", "retried without running the hook again")
	runs := len(h.lines("out/runs"))
	if o.metric("appended") != "" {
		t.Error("the metrics of the hook are shown, though the run has not succeeded")
	}
	h.createConfigMap("later", "x", nil)
	retry(3)
	h.awaitConfigMap("later", "k", "v")
	h.eventually("the metric of the hook", func() error {
		if got := o.metric("appended"); got != "1" {
			return fmt.Errorf("appended %q", got)
		}
		return nil
	})
	if again, n := len(h.lines("out/runs")), appended(); again != runs || n != 1 {
		t.Errorf("%d runs and %d elements, want %d and 1", again, n, runs)
	}
	list, err := h.client.CoreV1().ConfigMaps(h.namespace).List(h.ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	once := 0
	for _, cm := range list.Items {
		if cm.GenerateName == "once-" {
			once++
		}
	}
	if once != 1 {
		t.Errorf("%d objects of the operation that succeeded at once, want 1", once)
	}
}

// The section of a module that a global hook has enabled is checked when it changes; that of one
// that its script has switched off is not. D16, D37.
func TestConfigOfAModuleThatAHookEnables(t *testing.T) {
	h := newFixture(t, `
-- global-hooks/enable.sh --
#!/usr/bin/env bash
if [[ $1 == --config ]]; then echo '{"configVersion": "v1", "onStartup": 1}'; exit; fi
echo '{"op": "add", "path": "/webEnabled", "value": true}' > $VALUES_JSON_PATCH_PATH
-- modules/values.yaml --
offEnabled: true
-- modules/010-web/openapi/config-values.yaml --
type: object
properties: {size: {type: integer}}
-- modules/010-web/hooks/run.sh --
#!/usr/bin/env bash
if [[ $1 == --config ]]; then echo '{"configVersion": "v1", "beforeHelm": 1}'; exit; fi
jq -r '"size-\(.web.size)"' $VALUES_PATH >> $OUT/journal
-- modules/020-off/openapi/config-values.yaml --
type: object
properties: {size: {type: integer}}
-- modules/020-off/enabled --
#!/usr/bin/env bash
echo false > $MODULE_ENABLED_RESULT
`)
	h.setConfig(map[string]string{"web": "size: 1", "off": "size: many"})
	o := h.start().ready()
	h.awaitJournal("size-1")
	h.setConfig(map[string]string{"web": "size: many", "off": "size: none"})
	o.expect("ERROR", "the ConfigMap is refused as a whole", "web.size")
	h.setConfig(map[string]string{"web": "size: 2", "off": "size: none"})
	o.expect("WARN", "the values of a module are not valid; they are accepted", "module=off", "off.size")
	h.awaitJournal("size-1 size-2")
	if n := o.count("task failed"); n != 0 {
		t.Errorf("%d tasks have failed", n)
	}
}
