package main

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// parentPoll is how often the parent is checked. The kernel's own signal for
// this (PR_SET_PDEATHSIG) fires when the *thread* that forked us ends, which
// for a parent written in Go can be at any time; so it is polled.
const parentPoll = 250 * time.Millisecond

// withParent returns a context that ends with ctx or with the process pid;
// pid 0 means ctx alone.
func withParent(ctx context.Context, pid int) context.Context {
	if pid == 0 {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	direct := os.Getppid() == pid
	go func() {
		defer cancel()
		tick := time.NewTicker(parentPoll)
		defer tick.Stop()
		for !gone(pid, direct) {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return ctx
}

// gone reports whether the process pid has ended. A direct parent that ended
// loses its children at once, even while it is a zombie which still takes
// signals; of any other process we can only ask whether a signal would arrive.
func gone(pid int, direct bool) bool {
	if direct {
		return os.Getppid() != pid
	}
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}
