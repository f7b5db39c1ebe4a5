package supervisor_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/supervisor"
)

func echo() actor.Actor {
	return function(func(ctx actor.Context) {
		if msg, ok := ctx.Message().(string); ok {
			ctx.Respond(msg)
			ctx.Respond(msg + " again") // a mistake that must not hurt whoever asked
		}
	})
}

func TestAsk(t *testing.T) {
	why := errors.New("nobody is interested any more")
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	cases := map[string]struct {
		ctx      context.Context
		to       string
		question any
		want     any
		err      string
	}{
		"an answer":           {to: "echo", question: "hello", want: "hello"},
		"nobody there":        {to: "gone", question: "hello", err: "actor gone does not exist"},
		"the context is over": {ctx: cancelled, to: "silent", question: "hello", err: why.Error()},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.spawn("echo", echo)
				s.spawn("silent", silent)
				ctx := c.ctx
				if ctx == nil {
					ctx = context.Background()
				}
				got, err := s.Ask(ctx, s.PID(c.to), c.question)
				if got != c.want || (err == nil) != (c.err == "") || (err != nil && !strings.Contains(err.Error(), c.err)) {
					t.Errorf("got %v, %v", got, err)
				}
			})
		})
	}
}

// Who is cancelled does not ask any more: the question may start something that no caller
// would end.
func TestCancelledDoNotAsk(t *testing.T) {
	onStage(t, func(s *stage) {
		asked := false
		s.spawn("witness", func() actor.Actor {
			return actor.ReceiveFunc(func(ctx actor.Context) {
				if _, ok := ctx.Message().(string); ok {
					asked = true
				}
			})
		})
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := s.Ask(ctx, s.PID("witness"), "hello"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		synctest.Wait()
		if asked {
			t.Error("the question was sent")
		}
	})
}

// Each question has an answer of its own, also when a late one is on its way.
func TestAskIsNotConfusedByLateAnswers(t *testing.T) {
	onStage(t, func(s *stage) {
		pid := s.spawn("slow", func() actor.Actor {
			return function(func(ctx actor.Context) {
				if text, ok := ctx.Message().(string); ok {
					time.Sleep(time.Minute)
					ctx.Respond(text)
				}
			})
		})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := s.Ask(ctx, pid, "first"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a question without an answer in time: %v", err)
		}
		if got, err := s.Ask(context.Background(), pid, "second"); got != "second" || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	})
}

func TestWait(t *testing.T) {
	onStage(t, func(s *stage) {
		pid := s.spawn("someone", silent)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.Wait(ctx, pid); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "someone") {
			t.Errorf("wait for an actor that lives: %v", err)
		}
		s.Actors.Root.Stop(pid)
		if err := s.Wait(context.Background(), pid); err != nil {
			t.Errorf("wait for an actor that stops: %v", err)
		}
		if err := s.Wait(context.Background(), pid); err != nil {
			t.Errorf("wait for an actor that is gone: %v", err)
		}
	})
}

// An actor that has begun to stop is there until its children are gone.
func TestWaitForAnActorThatIsStopping(t *testing.T) {
	onStage(t, func(s *stage) {
		pid, runs := s.owner("owner")
		s.do(pid, func(ctx actor.Context) {
			runs().Start(ctx, s.task("t1", func(*supervisor.Run) (any, error) { time.Sleep(time.Minute); return nil, nil }))
		})
		s.Actors.Root.Stop(pid)
		synctest.Wait()
		if err := s.Wait(context.Background(), pid); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		s.expect("0s t1 works, 0 failed", "1m0s t1 ended: false")
	})
}

func TestNamesOfRootsAreUnique(t *testing.T) {
	onStage(t, func(s *stage) {
		s.spawn("one", silent)
		if _, err := s.Spawn("one", silent); err == nil || !strings.Contains(err.Error(), "one") {
			t.Errorf("a second actor of the same name: %v", err)
		}
	})
}

// Design 2: a bug in an actor that is no run ends the process, and is logged with its stack before; neither
// the actor nor its supervisor handles anything in between. An error is no excuse.
func TestCrashEndsTheProcess(t *testing.T) {
	for where, reason := range map[string]any{"root": "bug", "root/child": errHook} {
		t.Run(where, func(t *testing.T) {
			onStage(t, func(s *stage) {
				root := s.spawn("root", silent)
				s.do(root, func(ctx actor.Context) {
					if _, err := ctx.SpawnNamed(s.Props(silent), "child"); err != nil {
						t.Error(err)
					}
				})
				s.do(s.PID(where), func(actor.Context) {
					defer func() {
						if s.ends.Load() > 0 {
							t.Error("the process ended before the handler had panicked")
						}
					}()
					panic(reason)
				})
				if got := s.ends.Load(); got != 1 {
					t.Errorf("the process ended %d times", got)
				}
				log := s.log.String()
				for _, part := range []string{"level=ERROR msg=\"actor crashed: the process ends", "actor=" + where + " ", "message=supervisor_test.call", "err=", "TestCrashEndsTheProcess"} {
					if !strings.Contains(log, part) {
						t.Errorf("the log has no %s:\n%.2000s", part, log)
					}
				}
				s.do(root, func(actor.Context) { panic("another") })
				if got := s.ends.Load(); got != 1 || strings.Count(s.log.String(), "actor crashed") != 1 {
					t.Errorf("the process ended %d times:\n%.2000s", got, s.log)
				}
			})
		})
	}
}

// crashVariable makes TestCrashOfAProgram the program that crashes.
const crashVariable = "SUPERVISOR_TEST_CRASHES"

// Design 2: without a function that ends the process, the panic itself does, also one that comes while its
// actor starts.
func TestCrashOfAProgram(t *testing.T) {
	if os.Getenv(crashVariable) != "" {
		s := supervisor.NewSystem(supervisor.Options{Log: quietLog()})
		_, _ = s.Spawn("root", func() actor.Actor { return function(func(actor.Context) { panic("no actor goes on") }) })
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashOfAProgram$")
	cmd.Env = append(os.Environ(), crashVariable+"=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), "panic: no actor goes on") {
		t.Errorf("%v:\n%.2000s", err, out)
	}
}

// What the dispatcher of the options runs must not block, so runs are not among it.
func TestRunsHaveGoroutinesOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inTurn := actor.NewSynchronizedDispatcher(100) // runs a mailbox in the goroutine that sends
		s := &stage{t: t, log: &lockedBuffer{}, began: time.Now()}
		s.System = supervisor.NewSystem(supervisor.Options{Log: quietLog(), Dispatcher: inTurn})
		defer s.end()
		pid, runs := s.owner("owner")
		s.Send(pid, call{func(ctx actor.Context) {
			runs().Start(ctx, s.task("t1", func(*supervisor.Run) (any, error) { time.Sleep(time.Hour); return nil, nil }))
		}})
		if waited := time.Since(s.began); waited != 0 {
			t.Errorf("the sender was held up for %v", waited)
		}
		s.advance(time.Hour)
		s.expect("0s t1 works, 0 failed", "1h0m0s t1 succeeded: <nil>", "1h0m0s t1 ended: true")
	})
}
