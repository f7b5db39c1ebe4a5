package testkit

import (
	"context"
	"reflect"

	"github.com/asynkron/protoactor-go/actor"
)

// death is the state of an operator that dies: by the step kill, or by the crash of one of its
// actors. As after kill -9, none of its actors handles another message (forget), none of its hooks,
// writes and Helm actions does more (Faults.Dead), and nothing of it is in the trace any more
// (Trace.Muted). But its goroutines are in the process of the test, so they must be ended in good
// order, at the same instant (bury), before the next operator can start (rise).
type death struct {
	stopping bool // a stop had begun before; it does what bury would
	burying  bool // bury settles, which calls bury again
	died     bool // and was not started again since
	risen    bool // it was, to lead
}

// forget keeps an actor of a dead operator from handling a message, by a panic, which the
// supervisor takes for another crash. Messages of the library, which are pointers, must arrive:
// they end actors.
func (p *player) forget(message any) {
	if p.Faults.Died() && reflect.TypeOf(message).Kind() != reflect.Pointer {
		panic("dead")
	}
}

// die marks the operator as dead. It may be called in the goroutine of an actor, also of one of
// several that crash; the rest is done by the player when it settles.
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
	if p.death.stopping { // player.stop waits for the end, and calls rise
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
