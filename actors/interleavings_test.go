package actors_test

import (
	"testing"

	"addon-operator/testkit"
)

// TestInterleavings plays the scripts of TestLifecycle under shuffled orders of messages.
func TestInterleavings(t *testing.T) {
	seeds := uint64(4) // make check plays 100
	if testing.Short() || raced {
		seeds = 3
	}
	testkit.Interleave(t, "testdata/*.txtar", seeds)
}
