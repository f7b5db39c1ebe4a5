package testkit

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
)

// stepMessages counts and traces the messages between actors in the step that comes next.
func (p *player) stepMessages(string) error {
	p.counting, p.counted = true, 0
	return nil
}

// count traces a message, unless the library has sent it. A question counts its answer, too, and
// is numbered by it.
func (p *player) count(receiver *actor.PID, message any, asked bool) {
	t := reflect.TypeOf(message)
	if strings.HasSuffix(t.PkgPath(), "/actor") || t.Kind() == reflect.Pointer {
		return
	}
	_, path, _ := strings.Cut(receiver.Id, "/")
	p.counted++
	line := fmt.Sprintf("%s to %s", t.Name(), path)
	if path == "" {
		line = t.Name() + " to the root"
	}
	if asked {
		p.counted++
		line += ", answered"
	}
	p.Trace.Add("%3d %s", p.counted, line)
}
