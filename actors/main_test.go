package actors_test

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"

	clientruntime "k8s.io/apimachinery/pkg/util/runtime"
)

// TestMain fits the process to the plays of lifecycle scripts. They leave garbage and keep
// almost nothing, so the collector would run all the time. And a play does one thing after
// the other, in many goroutines: a processor that plays only one waits half of the time. The
// handlers of client-go print errors of watches, and pause since the last error of the process, by
// the clock: on the virtual time of a play, that is for years.
func TestMain(m *testing.M) {
	clientruntime.ErrorHandlers = nil
	debug.SetGCPercent(1000)
	debug.SetMemoryLimit(512 << 20)
	_ = flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0))) // the flag exists
	os.Exit(m.Run())
}
