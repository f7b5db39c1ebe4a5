package testkit

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/scenario"
)

// messageCount counts and traces the messages between actors during one step. Only turns and the
// goroutine of the play touch it, of which one runs at a time.
type messageCount struct {
	trace *scenario.Trace
	on    bool
	n     int
}

// stepMessages counts the messages of the step that comes next.
func stepMessages(p *player, _ string) error {
	p.messages = messageCount{trace: p.Trace, on: true}
	return nil
}

// count traces a message, unless the library has sent it: all of ours are values, those of the
// library pointers. A question counts its answer, too, which no actor receives; its line has the
// number of the question.
func (c *messageCount) count(receiver *actor.PID, message any, asked bool) {
	t := reflect.TypeOf(message)
	if !c.on || strings.HasSuffix(t.PkgPath(), "/actor") || t.Kind() == reflect.Pointer {
		return
	}
	_, path, _ := strings.Cut(receiver.Id, "/")
	c.n++
	line := fmt.Sprintf("%s to %s", t.Name(), path)
	if path == "" {
		line = t.Name() + " to the root"
	}
	if asked {
		c.n++
		line += ", answered"
	}
	c.trace.Add("%3d %s", c.n, line)
}
