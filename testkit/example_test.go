package testkit_test

import (
	"fmt"
	"strings"
	"testing"

	"addon-operator/messages/view"
	"addon-operator/testkit"
)

// counter is a module whose hook counts Pods. Hooks that begin with #!testkit are no
// programs: they say in YAML what they do, so that a play takes milliseconds.
func counter() *testkit.Script {
	return testkit.NewScript("The release knows how many Pods there are.").
		File("modules/values.yaml", "counterEnabled: true\n").
		File("modules/010-counter/Chart.yaml", "name: counter\nversion: 0.1.0\n").
		File("modules/010-counter/hooks/count.sh", `
#!testkit
config: {configVersion: v1, kubernetes: [{name: pods, kind: Pod, includeSnapshotsFrom: [pods]}]}
runs:
  pods: {count: /counter/pods}
`)
}

// A script can be written in code, and kept in a file when it proves something.
func Example() {
	fmt.Print(testkit.NewScript("A failed hook is tried again after 5 s.").
		File("modules/values.yaml", "dnsEnabled: true\n").
		File("modules/010-dns/hooks/a.sh", "#!testkit\nconfig: {configVersion: v1, beforeHelm: 1}\n").
		Step("fail 010-dns/hooks/a.sh 1", "start", "advance 5s"))
	// Output:
	// A failed hook is tried again after 5 s.
	//
	// -- script --
	// fail 010-dns/hooks/a.sh 1
	// start
	// advance 5s
	// -- modules/values.yaml --
	// dnsEnabled: true
	// -- modules/010-dns/hooks/a.sh --
	// #!testkit
	// config: {configVersion: v1, beforeHelm: 1}
}

// An hour passes in milliseconds; what was left can be looked at, and so can the trace.
func ExampleScript_Play() {
	_ = func(t *testing.T) { // a test
		played := counter().Step("object Pod default/a", "start", "advance 1h").Play(t, 0)
		if got := played.Releases["counter"]; !strings.Contains(got, `"pods":1`) {
			t.Errorf("the release has %s\n%s", got, played.Trace)
		}
	}
}

// What the examples above show is true.
func TestExamples(t *testing.T) {
	played := counter().Step("object Pod default/a", "start", "advance 1h").Play(t, 0)
	if got := played.Releases["counter"]; !strings.Contains(got, `"pods":1`) || played.Phases["counter"] != view.Ready {
		t.Errorf("the release has %s, phases %v\n%s", got, played.Phases, played.Trace)
	}
}
