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
	if strings.Contains(p.Trace, "circles") {
		t.Errorf("people are told of a loop:\n%s", p.Trace)
	}
}

// K10: a thousand objects with an event each, which the hook is told of at once, are no loop.
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
// next event of it once, and nobody is told of a loop; the last state is handled.
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

// K10: a loop through more objects than may wait is slowed down like any other, and its hook sees
// them by a Synchronization.
func TestLoopThroughManyObjects(t *testing.T) {
	const objects = 1001
	var patches strings.Builder
	for i := range objects {
		fmt.Fprintf(&patches, "  - {operation: JQPatch, kind: ConfigMap, namespace: d, name: x-%d, jqFilter: '.data.x += \"z\"'}\n", i+1)
	}
	p := testkit.NewScript("A hook writes each object that it watches, at each run.").
		File("modules/values.yaml", "mEnabled: true\n").
		File("modules/010-m/hooks/a.sh", "#!testkit\nconfig: {configVersion: v1, kubernetes: [{name: cm, kind: ConfigMap, jqFilter: .data.x, executeHookOnSynchronization: false}]}\nruns:\n  cm:\n    objects:\n"+patches.String()).
		File("begin.yaml", "kind: ConfigMap\nmetadata: {name: x-1, namespace: d}\ndata: {x: begin}\n").
		Step(fmt.Sprintf("objects ConfigMap d/x %d", objects), "start", "apply begin.yaml", "advance 1m").Play(t, 0)
	if len(p.Problems) > 0 {
		t.Errorf("problems: %v", p.Problems)
	}
	runs := strings.Count(p.Trace, "hook 010-m/hooks/a.sh:")
	if runs < 5 || runs > 12 || !strings.Contains(p.Trace, "circles") || !strings.Contains(p.Trace, "Synchronization of 1001") {
		t.Errorf("%d runs in a minute:\n%.3000s", runs, p.Trace)
	}
}
