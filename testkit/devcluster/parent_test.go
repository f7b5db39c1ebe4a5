package main

import (
	"context"
	"os"
	"os/exec"
	"testing"
)

func TestClusterEndsWithTheProcessItWatches(t *testing.T) {
	watched := exec.Command("sh", "-c", "read line") // lives until its stdin closes
	stdin, err := watched.StdinPipe()
	must(t, err)
	must(t, watched.Start())
	ctx := withParent(t.Context(), watched.Process.Pid)
	if gone(watched.Process.Pid, false) || ctx.Err() != nil {
		t.Fatal("gone while it runs")
	}
	must(t, stdin.Close())
	_ = watched.Wait() // end of input is not success for read
	<-ctx.Done()
}

func TestParentIsNotGoneWhileItIsTheParent(t *testing.T) {
	if gone(os.Getppid(), true) {
		t.Error("the test's parent is gone")
	}
	if !gone(os.Getpid(), true) { // as after an adoption: the parent is another
		t.Error("a parent that is not the parent any more is not gone")
	}
}

func TestDetachedClusterWatchesNobody(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if withParent(ctx, 0) != ctx {
		t.Error("process 0 is watched")
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	watching := withParent(ctx, os.Getppid())
	cancel()
	<-watching.Done()
}
