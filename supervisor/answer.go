package supervisor

import (
	"context"
	"fmt"
)

// Ask sends a message of a run to the actor with the given path and waits for its answer. It fails
// when the run is cancelled.
func Ask[Answer any](r *Run, path string, question any) (Answer, error) {
	return AskFor[Answer](r.ctx, r.system, path, question)
}

// AskFor is Ask for callers outside of the actors. It ends with ctx; an actor that does not exist is an error, and an
// answer of another type a bug of the program.
func AskFor[Answer any](ctx context.Context, s *System, path string, question any) (Answer, error) {
	var none Answer
	got, err := s.Ask(ctx, s.PID(path), question)
	if err != nil {
		return none, err
	}
	answer, ok := got.(Answer)
	if !ok {
		return none, fmt.Errorf("bug: actor %s answered %T with %T", path, question, got)
	}
	return answer, nil
}
