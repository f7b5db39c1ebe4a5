package actors_test

import (
	"os"
	"runtime/debug"
	"testing"
)

// The plays of lifecycle scripts leave garbage and keep almost nothing, so the collector
// would run all the time. More than half a gigabyte is not left lying around.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(512 << 20)
	os.Exit(m.Run())
}
