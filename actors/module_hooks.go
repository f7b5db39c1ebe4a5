package actors

import (
	"errors"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/hooks"
	"addon-operator/supervisor"
)

// How a module comes by its hooks. They are loaded by a run of its own: from the moment when
// the discovery has enabled the module, while the modules before it are still being installed.
// In a large house the questions for --config take as long as all hooks of the first converge.
// The modules' runs take turns, so that hooks are asked in alphabetical order (C3).

// loadRun is the name of the run that loads hooks.
const loadRun = "load-hooks"

// getHooks asks a module for its hooks; they are loaded when they are not yet. It is
// answered with hooksAnswer.
type getHooks struct{}

type hooksAnswer struct {
	hooks []hooks.Hook
	err   error
}

// loading is what a module remembers while its hooks are loaded.
type loading struct {
	awaiting []*actor.PID // runs that need the hooks
	err      error        // why the last attempt has failed
}

// getHooks answers at once, or when the hooks are loaded.
func (m *module) getHooks(ctx actor.Context) {
	if m.state.loaded {
		ctx.Respond(hooksAnswer{hooks: m.state.hooks})
		return
	}
	m.loading.awaiting = append(m.loading.awaiting, ctx.Sender())
	m.loadHooks(ctx)
}

// loadHooks begins to load the hooks, unless it has begun. A failure is told to those who
// need the hooks, and to nobody when that is nobody yet: the run that comes asks again.
func (m *module) loadHooks(ctx actor.Context) {
	if m.state.loaded || m.Has(loadRun) {
		return
	}
	mod := m.state.module
	m.loading.err = nil
	m.Start(ctx, supervisor.Task{
		ID: loadRun, AllowFailure: true,
		Work: func(run *supervisor.Run) (any, error) {
			if err := m.program.loads.Acquire(run.Context(), 1); err != nil {
				return nil, err
			}
			defer m.program.loads.Release(1)
			return loadModuleHooks(run.Context(), m.program.World, mod, m.log)
		},
		Succeeded: func(_ actor.Context, result any) {
			m.state.hooks, _ = result.([]hooks.Hook)
			m.state.loaded = true
			m.program.Metrics.hooksLoaded(m.name, m.state.hooks)
		},
		Failed: func(a supervisor.Attempt) { m.loading.err = a.Err },
		Ended:  m.loadEnded,
	})
}

// loadEnded answers those who wait. They can only wait for a run that was cancelled when they
// came while it was ending; then it begins anew.
func (m *module) loadEnded(ctx actor.Context, outcome supervisor.Outcome) {
	if len(m.loading.awaiting) == 0 {
		return
	}
	if outcome == supervisor.Cancelled && !m.Ending() {
		m.loadHooks(ctx)
		return
	}
	answer := hooksAnswer{hooks: m.state.hooks}
	if !m.state.loaded {
		answer.err = m.loading.err
		if answer.err == nil {
			answer.err = errNotLoaded
		}
	}
	for _, pid := range m.loading.awaiting {
		ctx.Send(pid, answer)
	}
	m.loading.awaiting = nil
}

// errNotLoaded is the answer of a module that stops.
var errNotLoaded = errors.New("the module stops before its hooks are loaded")
