package scenario

import (
	"strings"
	"sync"
	"time"
)

// Faults are injected by steps of a script: actions that fail, and that take long. An
// action is named by its kind, such as FaultOfHook, and its hook or release.
type Faults struct {
	mu    sync.Mutex     // steps set them in their goroutine, runs use them up in theirs
	fail  map[string]int // how often an action will fail
	lasts map[string]time.Duration
}

// The kinds of actions. Each ends with a space, which no name of a hook or release begins with, so
// that a kind and a name make the key of an action.
const (
	FaultOfHook = "hook "
	FaultOfHelm = "helm "
)

// NewFaults makes an empty set.
func NewFaults() *Faults { return &Faults{fail: map[string]int{}, lasts: map[string]time.Duration{}} }

// Clear ends all faults.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.fail)
	clear(f.lasts)
}

// Fail makes the next n actions fail. It replaces what an earlier call has left, so 0 ends the
// fault.
func (f *Faults) Fail(action string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail[action] = n
}

// Slow makes an action take so long from now on.
func (f *Faults) Slow(action string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lasts[action] = d
}

// Take returns how many of the next n actions fail, and counts them, so that no other caller gets
// the same ones.
func (f *Faults) Take(action string, n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := min(n, f.fail[action])
	f.fail[action] -= taken
	return taken
}

// TakeFile is Take for one action on a file: the script may name it by the end of its path. The
// longest name that has a fault is taken.
func (f *Faults) TakeFile(kind, path string) bool {
	for more := true; more; _, path, more = strings.Cut(path, "/") {
		if f.Take(kind+path, 1) > 0 {
			return true
		}
	}
	return false
}

// Lasts is how long an action takes.
func (f *Faults) Lasts(action string) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lasts[action]
}
