package testkit

import (
	"context"
	"reflect"

	"github.com/asynkron/protoactor-go/actor"
)

// An operator dies by the step kill, or by the crash of one of its actors. As after kill -9, none of its
// actors handles another message, none of its hooks, writes and Helm actions does more, and nothing of it
// is in the trace any more. What is left of its goroutines ends at the same instant.

// death is what the player knows of it.
type death struct {
	stopping bool // a stop had begun before
	burying  bool
	died     bool // and was not started again since
	risen    bool // it was, to lead
}

// forget keeps an actor of a dead operator from handling a message; what the library says about
// the end of actors it must hear.
func (p *player) forget(message any) {
	if p.Faults.Died() && reflect.TypeOf(message).Kind() != reflect.Pointer {
		panic("dead")
	}
}

// die may be called in the goroutine of an actor.
func (p *player) die() {
	if p.Operator != nil && !p.Faults.Dead.Swap(true) {
		p.Trace.Muted.Store(true)
	}
}

// bury ends what is left of an operator that has died.
func (p *player) bury() {
	if !p.Faults.Dead.Load() || p.death.burying {
		return
	}
	p.death.burying = true
	p.End()
	p.Operator.Send("", &actor.PoisonPill{})
	if p.death.stopping { // whoever waits for that does the rest
		return
	}
	if err := p.Await(func() error { return p.Operator.Stop(context.Background()) }); err != nil {
		p.t.Error(err)
	}
	p.rise()
	p.death.died = true
}

// rise makes room for the next operator.
func (p *player) rise() {
	if p.Faults.Dead.Load() {
		p.witness.note("stop", "")
	}
	p.Operator = nil
	p.death.burying = false
	p.Faults.Dead.Store(false)
	p.Trace.Muted.Store(false)
}
