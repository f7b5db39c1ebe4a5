package testkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
)

// killState is the state of an operator that is killed: by the step kill, or by the crash of one of its
// actors. As after kill -9, none of its actors handles another message (refuseIfDead), none of its hooks,
// writes and Helm actions has another effect, and nothing of it is in the trace any more
// (Trace.Dead). But its goroutines are in the process of the test, so they must be ended in good
// order, at the same instant (endKilled), before the next operator can start (clearKilled).
type killState struct {
	stopping bool // a stop had begun before the kill; it does the work of endKilled
	ending   bool // endKilled settles, which calls endKilled again
	killed   bool // and not started again since
}

// refuseIfDead keeps an actor of a dead operator from handling a message, by a panic, which the
// supervisor takes for another crash. Messages of the library, which are pointers, must arrive:
// they end actors.
func (p *player) refuseIfDead(message any) {
	if p.Trace.Dead.Load() && reflect.TypeOf(message).Kind() != reflect.Pointer {
		panic("dead")
	}
}

// markDead marks the operator as dead. It may be called in the goroutine of an actor, also of one of
// several that crash; the player does the rest when it settles.
func (p *player) markDead() {
	if p.Operator != nil {
		p.Trace.Dead.Store(true)
	}
}

// endKilled ends the goroutines of an operator that was killed.
func (p *player) endKilled() {
	if !p.Trace.Dead.Load() || p.kill.ending {
		return
	}
	p.kill.ending = true
	p.End()
	p.Operator.Send("", &actor.PoisonPill{})
	if p.kill.stopping { // player.stop waits for the end, and calls clearKilled
		return
	}
	if err := p.Await(func() error { return p.Operator.Stop(context.Background()) }); err != nil {
		p.t.Error(err)
	}
	p.clearKilled()
	p.kill.killed = true
}

// clearKilled resets the state, so that the next operator can start.
func (p *player) clearKilled() {
	p.Operator = nil
	p.kill.ending = false
	p.Trace.Dead.Store(false)
}

// crashes make an actor panic over a message, as a bug in its handler would: at its beginning, when
// nothing has changed yet, or at its end, when everything has. The operator ends with that, as at a
// kill (supervisor/crash.go). Each is used once. A point is written as in scripts: ACTOR over MESSAGE, or ACTOR after
// MESSAGE, with the path of the actor below the root, or * for any. Only turns and the goroutine of the play touch it.
type crashes map[string]bool

func stepCrash(p *player, point string) error {
	if words := strings.Fields(point); len(words) != 3 || words[1] != "over" && words[1] != "after" {
		return errors.New("it is neither 'ACTOR over MESSAGE' nor 'ACTOR after MESSAGE'")
	}
	p.crashes[point] = true
	return nil
}

// unused lists the points that no message has reached: a script with one proves less than it states.
func (c crashes) unused() (list []string) {
	for point := range c {
		list = append(list, fmt.Sprintf("nothing crashed at %q: no such message was sent", point))
	}
	return list
}

// observe is called before each message is handled, and the function that it returns afterwards.
func (c crashes) observe(receiver *actor.PID, message any) (handled func()) {
	crash := func(when string) {
		if len(c) == 0 { // most plays: what follows costs more
			return
		}
		_, path, _ := strings.Cut(receiver.Id, "/")
		name := reflect.Indirect(reflect.ValueOf(message)).Type().Name() // those of the library are pointers
		for _, who := range []string{cmp.Or(path, "root"), "*"} {
			if point := who + " " + when + " " + name; c[point] {
				delete(c, point)
				panic("crash over " + name)
			}
		}
	}
	crash("over")
	return func() { crash("after") }
}
