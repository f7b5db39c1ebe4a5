package testkit

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
)

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
