package testkit

import (
	"math/rand/v2"
	"strings"
	"time"
)

// waits are the Helm hooks of a random script that take their time. It is a part of a third of the
// scripts.
//
// A Job that never ends must not block other modules without end: in the end it has ended, or its
// module is disabled, and then all must be as the model says.
type waits struct {
	*draw
	begun bool
	stuck string // the hooks of this module never end; "": of none
}

// begin draws from a source of its own, for the same reason as order.begin.
func (w *waits) begin(seed uint64) {
	w.begun = rand.New(rand.NewPCG(seed, 2)).IntN(3) == 0
}

// steps are those that Helm hooks add to those that are drawn.
func (w *waits) steps() []func() {
	if !w.begun {
		return nil
	}
	return []func(){w.hooks, w.hooks, w.hooks, w.deletes, w.neverEnds}
}

func (w *waits) hooks() {
	w.add("hook-waits %s %s", oneOf(w.draw, withCharts()...), oneOf(w.draw, 0, 3*time.Second, 40*time.Second, 7*time.Minute))
}

func (w *waits) deletes() {
	w.add("hook-waits %s-delete %s", oneOf(w.draw, withCharts()...), oneOf(w.draw, 0, 3*time.Second, 40*time.Second, 7*time.Minute))
}

// neverEnds lets the hooks of a module wait until it is disabled.
func (w *waits) neverEnds() {
	if w.stuck == "" && !w.steady {
		w.stuck = oneOf(w.draw, withCharts()...)
		w.add("hook-waits %s 1000h", w.stuck)
	}
}

// end lets all hooks end, except those of the module that is disabled for them.
func (w *waits) end() {
	if !w.begun {
		return
	}
	for _, name := range withCharts() {
		w.add("hook-waits %s-delete 0s", name)
		if name != w.stuck {
			w.add("hook-waits %s 0s", name)
		}
	}
	if w.stuck != "" {
		w.set(w.stuck+"Enabled", "false")
	}
}

// withCharts are the modules of random scripts that have a release.
func withCharts() []string { return strings.Fields("a b c e f g h i j") }
