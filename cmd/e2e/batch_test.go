package e2e

import "testing"

// A batch file of a module is several hooks: one gives the chart a value, another one sees all
// snapshots of its group, and the probe that fails holds nothing up. Issue 14.15.
func TestBatchOfHooks(t *testing.T) {
	h := newFixture(t, "web")
	h.write("modules/010-web/hooks/batch", `#!/usr/bin/env bash
set -euo pipefail
case "$1 $2" in
"hook config")
  cat <<END
{"version": "v1", "hooks": [
  {"configVersion": "v1", "metadata": {"name": "size"}, "beforeHelm": 1},
  {"configVersion": "v1", "metadata": {"name": "watch"}, "kubernetes": [
    {"name": "one", "kind": "ConfigMap", "nameSelector": {"matchNames": ["one"]}, "namespace": {"nameSelector": {"matchNames": ["$NAMESPACE"]}}, "jqFilter": ".metadata.name"},
    {"name": "two", "kind": "ConfigMap", "nameSelector": {"matchNames": ["two"]}, "namespace": {"nameSelector": {"matchNames": ["$NAMESPACE"]}}, "jqFilter": ".metadata.name"}]}],
 "readiness": {"configVersion": "v1", "metadata": {"name": "readiness"}, "schedule": [{"name": "probe", "crontab": "* * * * * *"}]}}
END
  ;;
"hook run")
  case "$3" in
  0) echo '{"op": "add", "path": "/web/size", "value": "by batch"}' >"$VALUES_JSON_PATCH_PATH" ;;
  1) jq -rc '.[-1].snapshots | [.one[]?.filterResult, .two[]?.filterResult] | join(" ")' "$BINDING_CONTEXT_PATH" >>"$OUT/snapshots" ;;
  esac
  ;;
"hook ready") echo asked >>"$OUT/probes"; exit 1 ;;
esac
`)
	h.createConfigMap("one", "k", nil)
	o := h.start().ready()
	h.awaitConfigMap("web", "size", "by batch")
	h.awaitLine("out/snapshots", "one")
	h.createConfigMap("two", "k", nil)
	h.awaitLine("out/snapshots", "one two")
	h.awaitLine("out/probes", "asked")
	o.ask("hook list", "010-web/hooks/batch:size:0", "010-web/hooks/batch:watch:1", "010-web/hooks/batch:ready")
	if got := o.metric("addon_operator_module_hook_allowed_errors_total", `hook="010-web/hooks/batch:ready"`); got == "" {
		t.Error("the failed probe is not counted")
	}
}
