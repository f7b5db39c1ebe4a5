package hooks

import (
	"os"
	"syscall"
	"time"
)

// Usage is the cost of one execution (C30).
type Usage struct {
	Wall   time.Duration
	User   time.Duration // CPU time of the hook and of the children it has waited for
	System time.Duration
	// MaxRSS is the largest resident memory of one of these processes in bytes, or 0 when it is not
	// known: the kernel counts the memory of the process that starts another one towards that one,
	// so its figure is about the hook only when it is above the operator's own peak.
	MaxRSS int64
}

// usageOf has the figures of the kernel.
func usageOf(state *os.ProcessState, wall time.Duration) Usage {
	usage := Usage{Wall: wall}
	if state == nil {
		return usage
	}
	usage.User, usage.System = state.UserTime(), state.SystemTime()
	rusage, ok := state.SysUsage().(*syscall.Rusage)
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); ok && err == nil && rusage.Maxrss > self.Maxrss {
		usage.MaxRSS = int64(rusage.Maxrss) * rssUnit
	}
	return usage
}
