package shared

import (
	"cmp"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"addon-operator/actors/work"
	"addon-operator/messages"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// outside is how many runs and deletes may go on outside of their queues at a time, or more with more parallel modules.
const outside = 4

// Program is what all actors share. After the start only its atomic fields change, each by the one
// actor that is named next to it, so that every goroutine may read it.
type Program struct {
	*supervisor.System
	World
	Runs  *work.Shared
	Loads *semaphore.Weighted // of modules that load their hooks at the same time
	Out   *semaphore.Weighted // of runs and deletes that go on outside of their queues

	// Global are the global values, which global-hooks alone replaces; Enabled are the modules that
	// the last discovery has enabled, by converge alone. Modules hand both over to their runs.
	Global  atomic.Pointer[values.Section]
	Enabled atomic.Pointer[[]string]

	// Loops and Changed synchronise themselves: several actors, runs and pages use them.
	Loops   Loops
	Changed ChangedModules
	// SecretOff: the Secret with values is not read or written; set once, before the root is spawned.
	SecretOff atomic.Bool
}

// New makes what the actors of a system share.
func New(system *supervisor.System, w World) *Program {
	if w.Secrets == nil {
		w.Secrets = &Secrets{}
	}
	p := &Program{System: system, World: w, Loads: semaphore.NewWeighted(int64(max(1, w.Width))), Out: semaphore.NewWeighted(int64(max(outside, w.Width)))}
	p.Runs = work.NewShared(w.Services, p.Notify)
	return p
}

// EnabledModules are those that the last discovery has enabled, in the order of modules; nil before
// the first one. The list must not be changed.
func (p *Program) EnabledModules() []string {
	if names := p.Enabled.Load(); names != nil {
		return *names
	}
	return nil
}

// NotInForce says of each owner what has changed on disk and is not in force yet, given what a tree has not loaded.
func NotInForce(unloaded map[string]string) map[string]string {
	differs := map[string]string{}
	for name, what := range unloaded {
		name = cmp.Or(name, messages.GlobalHooks)
		differs[name] = fmt.Sprintf("%s; the change takes effect at the next reload of all modules", what)
	}
	return differs
}
