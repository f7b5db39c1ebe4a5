package main

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestComponentOutlivesTheContextUntilItIsStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	c := launch(ctx, "store", func(ctx context.Context) error {
		defer close(ended)
		<-ctx.Done()
		return nil
	})
	cancel() // components are stopped in order, not all at once
	select {
	case <-ended:
		t.Fatal("ended with the context")
	default:
	}
	c.stop(startTimeout)
	<-ended
}

func TestComponentThatHangsIsNotWaitedForForever(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	c := launch(t.Context(), "store", func(context.Context) error {
		<-release
		return nil
	})
	c.stop(0)
}

func TestWaitingEnds(t *testing.T) {
	notReady := errors.New("not yet")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for situation, test := range map[string]struct {
		ctx   context.Context
		run   func(context.Context) error
		ready func() error
		want  string
	}{
		"with the third answer": {t.Context(), untilStopped, after(3, notReady), ""},
		"with the context":      {cancelled, untilStopped, func() error { return notReady }, "not yet"},
		"with a failure of the component": {
			t.Context(),
			func(context.Context) error { return errors.New("no space left") },
			func() error { return notReady }, "store: no space left",
		},
		"with a component that returns": {
			t.Context(),
			func(context.Context) error { return nil },
			func() error { return notReady }, "store: ended by itself",
		},
	} {
		t.Run(situation, func(t *testing.T) {
			c := launch(t.Context(), "store", test.run)
			err := waitFor(test.ctx, c, func(context.Context) error { return test.ready() })
			c.stop(startTimeout) // of an ended one too: at once, or the test hangs
			switch {
			case test.want == "" && err != nil:
				t.Errorf("error %v", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func untilStopped(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// after returns a function that says err until it is called the n-th time.
func after(n int, err error) func() error {
	return func() error {
		n--
		if n > 0 {
			return err
		}
		return nil
	}
}
