package operator

import (
	"os"
	"runtime/debug"
)

// imageGOGC is the GOGC of the image, and of the process that guards hooks. It is for the start
// only: initialising libraries makes eight megabytes of tables and as much garbage, and the garbage
// collector, which only reacts to each doubling of the heap from four megabytes on, would run
// six times until the first hook is started, without use. Only the environment can set it early
// enough: the runtime reads it before any package is initialised.
const imageGOGC = "400"

// coldStart returns the function that restores Go's default after the start. Another GOGC, or none,
// is the choice of a person and stays.
func coldStart() (over func()) {
	if os.Getenv("GOGC") != imageGOGC {
		return func() {}
	}
	_ = os.Unsetenv("GOGC") // it is not for hooks
	const usual = 100
	return func() { debug.SetGCPercent(usual) }
}
