package devclustertest

import (
	"flag"
	"testing"
)

var full = flag.Bool("full", false, "play also what make test leaves to make test-full")

// Full reports whether the flag -full is given. make test-full gives it; make test does not, which a developer waits
// for.
func Full() bool { return *full }

// OnlyInFull skips a test without the flag -full: one that loads the operator, repeats, or has a cluster of its own.
func OnlyInFull(t *testing.T) {
	t.Helper()
	if !Full() {
		t.Skip("make test-full plays it")
	}
}
