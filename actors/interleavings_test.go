package actors_test

import (
	"testing"

	"addon-operator/testkit"
)

// TestInterleavings plays the scripts of TestLifecycle under shuffled orders of messages.
func TestInterleavings(t *testing.T) {
	if !*full {
		t.Skip("make test-full plays it")
	}
	testkit.Interleave(t, "testdata/*.txtar", 5)
}
