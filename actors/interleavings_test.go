package actors_test

import (
	"testing"

	"addon-operator/testkit"
)

// TestInterleavings plays the scripts of TestLifecycle under shuffled orders of messages.
func TestInterleavings(t *testing.T) {
	const seeds = 1 // make check plays 30
	testkit.Interleave(t, "testdata/*.txtar", seeds)
}
