package actors_test

import (
	"slices"
	"testing"

	"addon-operator/actors/converge"
	"addon-operator/actors/modules"
	"addon-operator/actors/monitors"
	"addon-operator/testkit"
)

// TestLifecycle plays the rules of the lifecycle. Each script names its rules in its
// first line. Each change of phase that is allowed happens in one of them; another one is a bug, which
// fails its script.
func TestLifecycle(t *testing.T) {
	testkit.Lifecycle(t, "testdata/*.txtar", func(happens map[string]bool) {
		for _, transition := range slices.Concat(modules.Phases().List("module"), converge.Phases().List("converge"), monitors.Phases().List("monitor")) {
			if !happens[transition] {
				t.Errorf("no script has %s", transition)
			}
		}
	})
}
