package supervisor

import "fmt"

// Ask sends a message of a run to the actor with the given path and waits for its answer. It fails
// when the run is cancelled; an answer of another type is a bug of the program.
func Ask[Answer any](r *Run, path string, question any) (Answer, error) {
	var none Answer
	got, err := r.system.Ask(r.ctx, r.system.PID(path), question)
	if err != nil {
		return none, err
	}
	answer, ok := got.(Answer)
	if !ok {
		return none, fmt.Errorf("bug: actor %s answered %T with %T", path, question, got)
	}
	return answer, nil
}
