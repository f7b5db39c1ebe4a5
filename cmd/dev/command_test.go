package dev

import (
	"syscall"
	"testing"
	"time"
)

// Two signals at once are two, also while no one has looked at the first: on a busy machine the second one would be lost.
func TestSecondSignalIsNotLost(t *testing.T) {
	const limit = time.Minute
	for range 200 {
		hurry := make(chan struct{})
		stop := onSecondSignal(func() { close(hurry) })
		for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} { // two of a kind may be one
			if err := syscall.Kill(syscall.Getpid(), s); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-hurry:
		case <-time.After(limit):
			t.Fatal("the second signal was lost")
		}
		stop()
	}
}
