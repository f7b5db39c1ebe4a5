package scenario

import "testing"

// chart is a module whose chart has two objects, with a hook that a crontab starts.
func chart(scenario string) map[string]string {
	return map[string]string{
		"010-a/Chart.yaml":        "apiVersion: v2\nname: a\nversion: 0.1.0\n",
		"010-a/templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: two}\n",
		"010-a/hooks/h.sh": `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{"configVersion": "v1", "schedule": [{"name": "hourly", "crontab": "0 * * * *"}], "afterHelm": 1}'
  exit
fi
echo '{"operation": "CreateIfNotExists", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "made"}}}' >"$KUBERNETES_PATCH_PATH"
`,
		"010-a/tests/t.yaml": scenario,
	}
}

// A crontab that no day fits does not keep the others from firing.
func TestCrontabThatNeverFires(t *testing.T) {
	files := chart("description: a\nsteps: [{advance: 1h}]\nexpect: {hooks: [{hook: h.sh, binding: afterHelm}, {hook: h.sh, binding: hourly}]}")
	files["010-a/hooks/never.sh"] = "#!/bin/sh\necho '{\"configVersion\": \"v1\", \"schedule\": [{\"crontab\": \"0 0 30 2 *\"}]}'\n"
	pass(t, files)
}

func pass(t *testing.T, files map[string]string) {
	t.Helper()
	for _, r := range module(t, Options{}, files) {
		if !r.Passed() {
			t.Errorf("%s\n%s", r, r.Log)
		}
	}
}

// Crontabs fire when their time comes, C13.
func TestTimePasses(t *testing.T) {
	pass(t, chart(`
description: in three hours the hook runs three times
steps:
- expect: {hooks: [{hook: h.sh, binding: afterHelm, times: 1}]}
- advance: 59m
- expect: {hooks: [{hook: h.sh, times: 0}]}
- advance: 2h1m
expect:
  hooks: [{hook: h.sh, binding: hourly, times: 3, objectPatches: [{operation: CreateIfNotExists, object: {kind: ConfigMap}}]}]
`))
}

// A failed task is tried again after 5 s, 10 s, 20 s: F7.
func TestFailedTasksAreTriedAgain(t *testing.T) {
	pass(t, chart(`
description: the hook fails three times, then all is well
steps:
- failHook: {hook: h.sh, times: 3}
- tick: hourly
- advance: 4s
- expect:
    hooks: [{hook: h.sh, times: 1, fails: true}]
    failing: {a: the scenario makes it fail}
- advance: 30s
- expect:
    hooks: [{hook: h.sh, times: 2, fails: true}]
    failing: {a: the scenario makes it fail}
- advance: 1s
expect: {hooks: [{hook: h.sh, times: 1, fails: false}]}
`))
}

// Helm fails like hooks do, F7. The path of a run has /run/ in it twice when its module is called run.
func TestHelmFailsForAModuleCalledRun(t *testing.T) {
	pass(t, map[string]string{
		"010-run/Chart.yaml":        "apiVersion: v2\nname: run\nversion: 0.1.0\n",
		"010-run/templates/cm.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n",
		"010-run/tests/t.yaml": `
description: Helm fails once, and is tried again
steps:
- failHelm: {}
- configMap: {run: {x: 1}}
- expect: {failing: {run: the scenario makes Helm fail}}
- advance: 5s
expect: {modules: {run: ready}}
`,
	})
}

// Objects of the release that somebody deletes come back, as often as he does it (H13).
func TestHealing(t *testing.T) {
	pass(t, chart(`
description: what is deleted comes back
steps:
- delete: {kind: ConfigMap, namespace: addon-operator, name: one}
- expect:
    objects: [{kind: ConfigMap, metadata: {name: one}}, {kind: ConfigMap, metadata: {name: two}}]
    hooks: [{hook: h.sh, times: 2, binding: afterHelm}]
    log: ["release is not as the module left it"]
- delete: {kind: ConfigMap, namespace: addon-operator, name: one}
- delete: {kind: ConfigMap, namespace: addon-operator, name: two}
expect:
  objects: [{kind: ConfigMap, metadata: {name: one}}, {kind: ConfigMap, metadata: {name: two}}]
`))
}
