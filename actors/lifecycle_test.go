package actors_test

import (
	"testing"

	"addon-operator/testkit"
	"addon-operator/testkit/devclustertest"
)

// TestLifecycle plays the rules of the lifecycle. Each script names its rules in its
// first line.
func TestLifecycle(t *testing.T) { testkit.Lifecycle(t, "testdata/*.txtar") }

// TestInterleavings plays the scripts of TestLifecycle under shuffled orders of messages.
func TestInterleavings(t *testing.T) {
	if !devclustertest.Full() && !raced {
		t.Skip("make test-full plays it, and with one seed make test-race")
	}
	testkit.Interleave(t, "testdata/*.txtar", map[bool]uint64{false: 1, true: 5}[devclustertest.Full()])
}
