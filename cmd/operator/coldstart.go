package operator

import (
	"os"
	"runtime/debug"
)

// imageGOGC is the GOGC of the image, and of the process that guards hooks, which is for the start only. Initialising libraries
// makes eight megabytes of tables and as much garbage. The garbage collector, which knows
// only that the heap doubles from four megabytes again and again, would run six times until
// the first hook is started, for nothing. Only the environment says so early enough: the
// runtime reads it before any package is initialised.
const imageGOGC = "400"

// coldStart returns the function that gives Go's default back after the start. Another GOGC,
// or none, is somebody's choice and stays.
func coldStart() (over func()) {
	if os.Getenv("GOGC") != imageGOGC {
		return func() {}
	}
	_ = os.Unsetenv("GOGC") // it is not for hooks
	const usual = 100
	return func() { debug.SetGCPercent(usual) }
}
