package scenario

import (
	"errors"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"addon-operator/supervisor"
)

// Faults are injected by steps of a script: actions that fail, and that take long. An
// action is named by its kind, such as FaultOfHook, and its hook or release. Nil Faults are none.
// Steps set them in their goroutine, runs use them up in theirs; the maps are copied at each
// change, so both may.
type Faults struct {
	fail  supervisor.Shared[map[string]int] // how often an action will fail
	lasts supervisor.Shared[map[string]time.Duration]
	// Dead: the operator was killed, and every action of its remaining goroutines fails.
	Dead atomic.Bool
}

// ErrDead ends the actions of an operator that was killed.
var ErrDead = errors.New("the operator is dead")

// Died reports whether the operator was killed.
func (f *Faults) Died() bool { return f != nil && f.Dead.Load() }

// The kinds of actions. Each ends with a space, which no name of a hook or release begins with, so
// that a kind and a name make the key of an action.
const (
	FaultOfHook    = "hook "
	FaultOfHelm    = "helm "
	FaultOfObjects = "objects " // all object patches; there is no name
)

// AskConfig ends the name of the call of a hook for its configuration, so that it fails and lasts
// independently of the hook's runs.
const AskConfig = " --config"

// NewFaults makes an empty set.
func NewFaults() *Faults { return &Faults{} }

// with is a copy of a map in which a key has a value.
func with[K comparable, V any](before map[K]V, key K, value V) map[K]V {
	after := map[K]V{}
	maps.Copy(after, before)
	after[key] = value
	return after
}

// Fail makes the next n actions fail. It replaces what an earlier call has left, so 0 ends the
// fault.
func (f *Faults) Fail(action string, n int) {
	f.fail.Change(func(now map[string]int) map[string]int { return with(now, action, n) })
}

// Slow makes an action take so long from now on.
func (f *Faults) Slow(action string, d time.Duration) {
	f.lasts.Change(func(now map[string]time.Duration) map[string]time.Duration { return with(now, action, d) })
}

// Take returns how many of the next n actions fail, and counts them, so that no other caller gets
// the same ones.
func (f *Faults) Take(action string, n int) int {
	if f == nil || f.fail.Get()[action] == 0 {
		return 0
	}
	taken := 0
	f.fail.Change(func(now map[string]int) map[string]int {
		taken = min(n, now[action])
		return with(now, action, now[action]-taken)
	})
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
	if f == nil {
		return 0
	}
	return f.lasts.Get()[action]
}
