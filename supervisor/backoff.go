package supervisor

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// The delays between two attempts at a task (rule F7): 5 s, 10 s, 20 s, 30 s, 30 s, …
const (
	firstDelay = 5 * time.Second
	maxDelay   = 30 * time.Second
)

// Backoff returns the delays between the attempts at one task. It never gives up.
//
// There is no jitter: attempts of one task are all that it spaces, and the library
// adds its jitter after the cap, which would break the promise of 30 s.
func Backoff() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstDelay),
		backoff.WithMultiplier(2),
		backoff.WithMaxInterval(maxDelay),
		backoff.WithRandomizationFactor(0),
		backoff.WithMaxElapsedTime(0), // the default of 15 minutes would end in a hot loop
	)
}
