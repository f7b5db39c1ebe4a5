package actors_test

import (
	"testing"

	"addon-operator/testkit"
)

// TestLifecycle plays the rules of the lifecycle. Each script names its rules in its
// first line.
func TestLifecycle(t *testing.T) { testkit.Lifecycle(t, "testdata/*.txtar") }
