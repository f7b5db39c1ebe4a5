package converge

import (
	"testing"

	"addon-operator/actors/shared/sharedtest"
)

// The diagram of phases is what the code allows.
func TestPhasesAreDrawn(t *testing.T) {
	sharedtest.PhasesAreDrawn(t, "converge", "phase.go", Phases().List("converge"))
}
