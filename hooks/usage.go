package hooks

import (
	"os"
	"syscall"
	"time"
)

// Usage is what one execution has cost (C30).
type Usage struct {
	Wall   time.Duration
	User   time.Duration // CPU time of the hook and of the children it has waited for
	System time.Duration
	// MaxRSS is the largest resident memory of one of these processes in bytes, or 0 when it is not known: the kernel
	// counts the memory of the process that starts another one towards that one, so whatever is below the operator's own
	// peak is hidden by it.
	MaxRSS int64
}

func usageOf(state *os.ProcessState, wall time.Duration) Usage {
	usage := Usage{Wall: wall}
	if state == nil {
		return usage
	}
	usage.User, usage.System = state.UserTime(), state.SystemTime()
	rusage, ok := state.SysUsage().(*syscall.Rusage)
	if !ok {
		return usage
	}
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err == nil && rusage.Maxrss > self.Maxrss {
		usage.MaxRSS = int64(rusage.Maxrss) * rssUnit
	}
	return usage
}
