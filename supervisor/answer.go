package supervisor

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
)

// UnexpectedAnswer is the error of a question that was answered by a message of
// another type: a mistake of ours.
func UnexpectedAnswer(to *actor.PID, question, got any) error {
	return fmt.Errorf("bug: actor %s answered %T with %T", to.Id, question, got)
}
