package actors_test

import (
	"fmt"
	"strings"
	"testing"

	"addon-operator/testkit"
)

// watcherOf is a hook that watches ConfigMaps and does nothing.
const watcherOf = `#!testkit
config: {configVersion: v1, kubernetes: [{name: cm, kind: ConfigMap, executeHookOnSynchronization: false%s}]}
runs:
  cm: {values: [{op: add, path: /m/list/-, value: 1}]}
`

func loopless(t *testing.T, p *testkit.Played) {
	t.Helper()
	if len(p.Problems) > 0 {
		t.Errorf("problems: %v", p.Problems)
	}
	if strings.Contains(p.Trace, "in a loop") {
		t.Errorf("a loop is reported:\n%s", p.Trace)
	}
}

// K10: a thousand objects with an event each, which the hook receives at once, are no loop.
func TestManyObjectsAreNoLoop(t *testing.T) {
	p := testkit.NewScript("A thousand objects come one after the other.").
		File("modules/values.yaml", "mEnabled: true\nm: {list: []}\n").
		File("modules/010-m/hooks/a.sh", fmt.Sprintf(watcherOf, "")).
		Step("start", "objects ConfigMap d/x 1000", "calm 1s").Play(t, 0)
	loopless(t, p)
	if len(p.Queues) > 0 {
		t.Errorf("after a moment there wait %v", p.Queues)
	}
}

// K10: a rollout writes an object again and again while its hook runs. The hook may wait for the
// next event of it once, and no loop is reported; the last state is handled.
func TestRolloutIsNoLoop(t *testing.T) {
	s := testkit.NewScript("Somebody writes an object twice a second; the hook takes 300 ms.").
		File("modules/values.yaml", "mEnabled: true\nm: {list: []}\n").
		File("modules/010-m/hooks/a.sh", fmt.Sprintf(watcherOf, "")).
		Step("slow 010-m/hooks/a.sh 300ms", "start")
	for i := range 30 {
		name := fmt.Sprintf("s%d.yaml", i)
		s = s.File(name, fmt.Sprintf("kind: ConfigMap\nmetadata: {name: a, namespace: d}\ndata: {x: \"%d\"}\n", i)).Step("apply "+name, "advance 500ms")
	}
	p := s.Step("advance 10s").Play(t, 0)
	loopless(t, p)
	if runs := strings.Count(p.Trace, "hook 010-m/hooks/a.sh:"); runs < 25 {
		t.Errorf("%d runs for 30 events:\n%s", runs, p.Trace)
	}
}
