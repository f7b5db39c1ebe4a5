package actors_test

import (
	"testing"

	"addon-operator/testkit"
)

// TestLifecycle plays the rules of the lifecycle. Each script names its rules in its
// first line.
func TestLifecycle(t *testing.T) { testkit.Lifecycle(t, "testdata/*.txtar") }

// TestInterleavings plays the scripts of TestLifecycle under shuffled orders of messages.
func TestInterleavings(t *testing.T) {
	if !*full {
		t.Skip("make test-full plays it")
	}
	testkit.Interleave(t, "testdata/*.txtar", 5)
}
