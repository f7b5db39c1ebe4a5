package supervisor

import (
	"errors"
	"fmt"
)

// Failure is the typed failure of a task: a hook that exited with an error, a
// refused patch, a Helm action. A run raises it by [Must], the strategy of its owner
// restarts the run. Any other panic is a bug of ours and is treated as such.
type Failure struct{ Err error }

// Error implements error.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap gives access to the cause.
func (f *Failure) Unwrap() error { return f.Err }

// Must ends the current message of an actor with a typed failure when err is not
// nil. It is the only place of the program that panics on purpose.
func Must(err error) {
	if err != nil {
		panic(&Failure{Err: err})
	}
}

// asFailure distinguishes a typed failure from a bug.
func asFailure(reason any) (err error, bug bool) {
	var failure *Failure
	if e, ok := reason.(error); ok {
		if errors.As(e, &failure) {
			return failure.Err, false
		}
		return fmt.Errorf("bug: %w", e), true
	}
	return fmt.Errorf("bug: %v", reason), true
}
