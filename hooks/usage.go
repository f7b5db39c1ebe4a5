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
	// known. The kernel counts the memory of the process that starts another one towards that one,
	// so its figure means nothing below the operator's own peak. The memory of such a hook is read
	// while it runs: the figure lacks what it used after the last reading, in the last fifth of its
	// duration, or the last 2 ms, and never more than the last quarter of a second. In the first
	// 100 ms it also lacks the programs that the hook has started from other threads than their
	// first.
	MaxRSS int64
}

// firstLook and longestLook are the shortest and the longest time between two readings of the
// memory of a hook. From threadsAfter on, readings are rare enough to include all threads: see
// peakMemory.
const (
	firstLook   = 2 * time.Millisecond
	longestLook = 250 * time.Millisecond

	threadsAfter = 100 * time.Millisecond
)

// lookAtMemory reads the memory of a process again and again until stop is called, which returns
// the peak. Most hooks take some milliseconds, so the first readings follow each other quickly.
// stop must be called before the process is reaped.
func lookAtMemory(pid int) (stop func() (peak int64)) {
	began, peak := time.Now(), peakMemory(pid, false)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		timer := time.NewTimer(firstLook)
		defer timer.Stop()
		for {
			select {
			case <-done:
				return
			case <-timer.C:
				age := time.Since(began)
				peak = max(peak, peakMemory(pid, age >= threadsAfter))
				timer.Reset(min(max(firstLook, age/4), longestLook))
			}
		}
	}()
	return func() int64 {
		close(done)
		<-ended
		return peak
	}
}

// usageOf combines the kernel's figures with the peak that was read. The kernel's peak replaces it
// if it is above our own peak, because only then it is about the hook (see MaxRSS).
func usageOf(state *os.ProcessState, wall time.Duration, seen int64) Usage {
	usage := Usage{Wall: wall, MaxRSS: seen}
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
