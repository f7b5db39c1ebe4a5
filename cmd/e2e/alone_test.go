package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const alone = `A module that fails, and a hook that is run for it and for events, in the same queue and in another one.

-- modules/values.yaml --
appEnabled: true
-- modules/010-app/templates/cm.yaml --
{{ fail "no" }}
-- modules/010-app/hooks/hook.sh --
#!/usr/bin/env bash
set -euo pipefail
if [[ ${1:-} == --config ]]; then
  cat <<END
configVersion: v1
beforeHelm: 1
schedule: [{name: ticks, crontab: "*/2 * * * * *", queue: ticks}]
kubernetes:
- {name: events, kind: ConfigMap, namespace: {nameSelector: {matchNames: [$NAMESPACE]}}, labelSelector: {matchLabels: {app: watched}}, executeHookOnSynchronization: false}
END
  exit
fi
mkdir "$OUT/runs" || echo overlap >> "$OUT/overlaps"
sleep 0.7
rmdir "$OUT/runs"
jq -r '.[].binding' "$BINDING_CONTEXT_PATH" >> "$OUT/ran"
`

// While a module that fails is retried outside of the queue main, its hook runs for events and ticks; two runs of one
// hook never overlap. C46.
func TestHookRunsAlone(t *testing.T) {
	h := newFixture(t, alone)
	h.start("ADDON_OPERATOR_MODULE_FAILURE_POLICY=isolate").ready()
	for events := 0; ; events++ {
		ran := h.lines("out/ran")
		count := func(binding string) (n int) {
			for _, line := range ran {
				if line == binding {
					n++
				}
			}
			return n
		}
		if count("beforeHelm") >= 3 && count("events") >= 3 && count("ticks") >= 3 {
			break
		}
		h.createConfigMap(fmt.Sprint("watched-", events), "x", map[string]string{"app": "watched"})
		h.until("the next run", func() bool { return !slices.Equal(h.lines("out/ran"), ran) })
	}
	if overlaps := h.lines("out/overlaps"); len(overlaps) > 0 {
		t.Errorf("%d times a run began before the one before had ended; the runs: %s", len(overlaps), strings.Join(h.lines("out/ran"), " "))
	}
}
