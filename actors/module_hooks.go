package actors

import (
	"context"
	"errors"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/hooks"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// How a module loads its hooks. They are loaded by a run of its own: from the moment when
// the discovery has enabled the module, while the modules before it are still being installed.
// In a large house the questions for --config take as long as all hooks of the first converge.
// The modules' runs take turns, so that hooks are asked in alphabetical order (C3); who needs
// its hooks at once does not wait for its turn.

// loading is what a module remembers while its hooks are loaded.
type loading struct {
	// id is that of the run. Each has its own: what a cancelled one has said may come after
	// its end, and would be taken for the result of the next.
	id       string
	needed   context.CancelFunc // ends its waiting for its turn
	awaiting []*actor.PID       // runs that need the hooks
	err      error              // why it has failed
}

// getHooks answers at once, or when the hooks are loaded. Of a module that is switched off
// only a run that is cancelled asks.
func (m *module) getHooks(ctx actor.Context) {
	switch {
	case m.loaded:
		ctx.Respond(work.Handed{Known: m.known()})
		return
	case m.life.off() && m.life.phase != view.Deleting:
		ctx.Respond(work.Handed{Known: m.known(), Err: errNotLoaded})
		return
	}
	m.loading.awaiting = append(m.loading.awaiting, ctx.Sender())
	m.loadHooks(ctx)
	m.loading.needed() // hooks of others, which are not needed yet, may hang
}

// loadHooks begins to load the hooks, unless it has begun. Those who need the hooks
// get a failure as answer. When none waits yet, the next run asks again.
func (m *module) loadHooks(ctx actor.Context) {
	if m.loaded || m.owner.tasks.runs.Has(m.loading.id) {
		return
	}
	mod := m.module
	turn, needed := context.WithCancel(context.Background())
	m.loads++
	m.loading.id, m.loading.needed, m.loading.err = "load-hooks-"+strconv.Itoa(m.loads), needed, nil
	m.owner.tasks.runs.Start(ctx, supervisor.Task{
		ID: m.loading.id, AllowFailure: true,
		Work: func(run *supervisor.Run) (any, error) {
			defer context.AfterFunc(run.Context(), needed)()
			run.Step("wait until others have loaded their hooks")
			if m.program.loads.Acquire(turn, 1) == nil {
				defer m.program.loads.Release(1)
			}
			run.Step("ask hooks for --config")
			return work.LoadModuleHooks(run.Context(), m.program.Hooks, mod, m.log)
		},
		Succeeded: func(ctx actor.Context, result any) {
			if found, _ := result.([]hooks.Hook); !m.loaded { // else newer ones are there
				m.haveHooks(ctx, found)
			}
		},
		Failed: func(a supervisor.Attempt) { m.loading.err = a.Err },
		Ended: func(ctx actor.Context, _ supervisor.Outcome) {
			needed()
			m.loadEnded(ctx)
		},
	})
}

func (m *module) haveHooks(ctx actor.Context, found []hooks.Hook) {
	m.owner.hooks.all, m.loaded = found, true
	m.program.nameQueues(ctx, m.name, found)
	m.program.Metrics.Hooks.Loaded(m.name, found)
}

// update takes over what has changed on disk, in place: the release, and hooks that bind as before, stay (P8).
func (m *module) update(ctx actor.Context, msg updateModule) {
	m.wantCRDs(!msg.module.SameCRDs(m.module))
	m.module = msg.module
	if msg.section != nil {
		next, err := m.owner.values.section.OnFiles(msg.section)
		if err != nil { // config has checked it, but not what hooks have set
			m.log.Error("new static values are refused", "err", err)
		} else {
			m.owner.values.set(next)
		}
	}
	switch {
	case !msg.asked:
	case m.loaded:
		m.owner.hooks.exchange(ctx, msg.hooks, m.life.started())
	case m.owner.tasks.runs.Has(m.loading.id): // it asks the old ones, or both
		m.haveHooks(ctx, msg.hooks)
		m.owner.tasks.runs.Cancel(ctx, m.loading.id)
	}
	m.owner.tasks.retryNow()
}

// loadEnded answers those who wait. When it has brought neither hooks nor an error, it was
// cancelled, and they came while it was ending; then it begins again.
func (m *module) loadEnded(ctx actor.Context) {
	if len(m.loading.awaiting) == 0 {
		return
	}
	answer := work.Handed{Known: m.known()}
	if !m.loaded {
		if m.loading.err == nil && !m.owner.tasks.runs.Ending() {
			m.loadHooks(ctx)
			return
		}
		answer.Err = m.loading.err
		if answer.Err == nil {
			answer.Err = errNotLoaded
		}
	}
	for _, pid := range m.loading.awaiting {
		ctx.Send(pid, answer)
	}
	m.loading.awaiting = nil
}

// errNotLoaded is the answer of a module that stops, or is switched off.
var errNotLoaded = errors.New("the module stops, or is switched off, before its hooks are loaded")
