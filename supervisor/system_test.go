package supervisor_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/supervisor"
)

func echo() actor.Actor {
	return function(func(ctx actor.Context) {
		switch msg := ctx.Message().(type) {
		case string:
			ctx.Respond(msg)
			ctx.Respond(msg + " again") // a mistake that must not hurt whoever asked
		case error:
			supervisor.Must(msg)
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

// Who is cancelled does not ask any more: the question may start something that nobody
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
		s.expect("0s t1 works, 0 failed", "1m0s t1 ended: cancelled")
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

func TestUnexpectedAnswer(t *testing.T) {
	onStage(t, func(s *stage) {
		err := supervisor.UnexpectedAnswer(s.PID("echo"), "question", 5)
		if got, want := err.Error(), "bug: actor echo answered string with int"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// A bug that happens again and again does not become a hot loop: the first three restarts
// come at once, then each waits 5 s; a stop meanwhile ends it for good (Q1, Q3).
func TestCrashLoopIsSpaced(t *testing.T) {
	onStage(t, func(s *stage) {
		starts := 0
		s.spawn("root", func() actor.Actor {
			return function(func(ctx actor.Context) {
				switch ctx.Message().(type) {
				case *actor.Started:
					if starts++; starts > 1 {
						panic("cannot start")
					}
				case string:
					panic("first")
				}
			})
		})
		s.advance(0)
		s.Send(s.PID("root"), "crash")
		s.advance(time.Minute)
		if starts < 5 || starts > 20 {
			t.Errorf("started %d times within a minute", starts)
		}
		s.Actors.Root.Stop(s.PID("root"))
		s.advance(time.Second)
		before := starts
		s.advance(time.Minute)
		if starts != before {
			t.Errorf("started %d times after it was stopped", starts-before)
		}
	})
}

// Design 2: a bug restarts the actor it happened in, at once and for ever, and is logged
// once with its stack. The library would stop it at the eleventh.
func TestCrashOnly(t *testing.T) {
	for _, where := range []string{"root", "root/child"} {
		t.Run(where, func(t *testing.T) {
			onStage(t, func(s *stage) {
				starts := make(chan bool, 100)
				producer := func() actor.Actor {
					return function(func(ctx actor.Context) {
						if _, ok := ctx.Message().(*actor.Started); ok {
							starts <- true
						}
					})
				}
				root := s.spawn("root", producer)
				if where != "root" {
					s.do(root, func(ctx actor.Context) {
						if _, err := ctx.SpawnNamed(s.Props(producer), "child"); err != nil {
							t.Error(err)
						}
					})
				}
				s.advance(0)
				before := len(starts)
				const crashes = 25
				for range crashes {
					s.crash(s.PID(where))
					s.advance(time.Minute)
				}
				if got := len(starts) - before; got != crashes {
					t.Errorf("%d restarts after %d crashes", got, crashes)
				}
				if got := s.Inspector.Restarts(); got != crashes {
					t.Errorf("%d restarts are counted", got)
				}
				log := s.log.String()
				if n := strings.Count(log, "an actor crashed"); n != crashes {
					t.Errorf("logged %d times:\n%s", n, log)
				}
				if !strings.Contains(log, "actor="+where) || !strings.Contains(log, "(*stage).crash") {
					t.Errorf("the log names no actor or no stack:\n%.2000s", log)
				}
			})
		})
	}
}

// Whoever waits for an answer to the message that crashed its receiver must hear of it;
// messages behind it are not lost.
func TestCrashLosesOneMessage(t *testing.T) {
	onStage(t, func(s *stage) {
		pid := s.spawn("echo", echo)
		s.Send(pid, errHook)
		if got, err := s.Ask(context.Background(), pid, "behind it"); got != "behind it" || err != nil {
			t.Errorf("the message behind the crash: %v, %v", got, err)
		}
		synctest.Wait()
		if len(s.lost) != 1 || <-s.lost != any(errHook) {
			t.Error("the lost message was not reported")
		}
	})
}

// diarist notes what it handles. It panics over a message as often as faults say, over its
// own start under the name "started"; a start spawns a child.
func (s *stage) diarist(diary *[]string, faults map[string]int) actor.Producer {
	handled := func(what string) {
		*diary = append(*diary, what)
		if faults[what]--; faults[what] >= 0 {
			panic(what)
		}
	}
	return func() actor.Actor {
		return function(func(ctx actor.Context) {
			switch msg := ctx.Message().(type) {
			case *actor.Started:
				if _, err := ctx.SpawnNamed(s.Props(silent), "child"); err != nil {
					s.t.Error(err)
				}
				handled("started")
			case *actor.Terminated:
				handled("terminated")
			case order:
				handled(string(msg))
				if ctx.Sender() != nil {
					ctx.Respond("done: " + string(msg))
				}
			case *actor.Restarting, *actor.Stopping, *actor.Stopped:
			default:
				s.t.Errorf("the actor gets a %T", msg)
			}
		})
	}
}

// A message that nobody would send again is handled again, by the restarted actor, before
// all others, with its sender, and once: what crashes always must not hold others up.
func TestCrashHandlesAgain(t *testing.T) {
	onStage(t, func(s *stage) {
		var diary []string
		pid := s.spawn("worker", s.diarist(&diary, map[string]int{"bad once": 1, "bad always": 2}))
		synctest.Wait()
		diary = nil
		s.Send(pid, order("good"))
		if got, err := s.Ask(context.Background(), pid, order("bad once")); got != "done: bad once" || err != nil {
			t.Errorf("what was handled again: %v, %v", got, err)
		}
		if len(s.lost) > 0 {
			t.Errorf("%v was told to be lost", <-s.lost)
		}
		if got, err := s.Ask(context.Background(), pid, order("bad always")); got != nil || err == nil || !strings.Contains(err.Error(), "worker crashed over the question") {
			t.Errorf("what crashed twice: %v, %v", got, err)
		}
		synctest.Wait()
		if len(s.lost) != 1 || <-s.lost != any(order("bad always")) {
			t.Error("it was not told to be lost")
		}
		if got, err := s.Ask(context.Background(), pid, order("last")); got != "done: last" || err != nil {
			t.Errorf("the message behind the crashes: %v, %v", got, err)
		}
		diary = slices.DeleteFunc(diary, func(what string) bool { return what == "terminated" })
		want := []string{"good", "bad once", "started", "bad once", "bad always", "started", "bad always", "started", "last"}
		if !slices.Equal(diary, want) {
			t.Errorf("handled %q, want %q", diary, want)
		}
	})
}

// The root goes on when it crashes, and its children do not notice; what it crashed over it
// handles once more, before what comes behind. Only what could not start is started again.
func TestRootGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		faults   map[string]int
		want     []string
		restarts int64
	}{
		"over a message":         {map[string]int{"first": 1}, []string{"started", "first", "first", "second"}, 1},
		"over the last message":  {map[string]int{"second": 1}, []string{"started", "first", "second", "second"}, 1},
		"twice over a message":   {map[string]int{"first": 2}, []string{"started", "first", "first", "second"}, 2},
		"over both, and again":   {map[string]int{"first": 2, "second": 1}, []string{"started", "first", "first", "second", "second"}, 3},
		"twice over both":        {map[string]int{"first": 2, "second": 2}, []string{"started", "first", "first", "second", "second"}, 4},
		"at the start":           {map[string]int{"started": 1}, []string{"started", "terminated", "started", "first", "second"}, 1},
		"at the start and again": {map[string]int{"started": 2}, []string{"started", "terminated", "started", "terminated", "started", "first", "second"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				var diary []string
				root, err := s.SpawnRoot("root", s.diarist(&diary, c.faults))
				if err != nil {
					t.Fatal(err)
				}
				s.roots = append(s.roots, root)
				s.Send(root, order("first"))
				s.Send(root, order("second"))
				s.advance(0)
				if !slices.Equal(diary, c.want) {
					t.Errorf("happened %q, want %q", diary, c.want)
				}
				if got := s.Inspector.Restarts(); got != c.restarts {
					t.Errorf("%d crashes are counted, want %d", got, c.restarts)
				}
			})
		})
	}
}

// Children that have ended are told to the root again when that crashed over them, also when
// all end at once: else its stop would wait for them for ever.
func TestRootHearsOfTheEndAgain(t *testing.T) {
	onStage(t, func(s *stage) {
		told := map[string]int{}
		root, err := s.SpawnRoot("root", func() actor.Actor {
			return function(func(ctx actor.Context) {
				switch msg := ctx.Message().(type) {
				case *actor.Started:
					for _, name := range []string{"a", "b", "c"} {
						if _, err := ctx.SpawnNamed(s.Props(silent), name); err != nil {
							t.Error(err)
						}
					}
				case order:
					for _, child := range ctx.Children() {
						ctx.Stop(child)
					}
				case *actor.Terminated:
					if told[msg.Who.Id]++; told[msg.Who.Id] == 1 {
						panic("over " + msg.Who.Id)
					}
				}
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		s.roots = append(s.roots, root)
		s.Send(root, order("stop them"))
		s.advance(0)
		if want := map[string]int{"root/a": 2, "root/b": 2, "root/c": 2}; !maps.Equal(told, want) {
			t.Errorf("told %v, want %v", told, want)
		}
	})
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
		s.expect("0s t1 works, 0 failed", "1h0m0s t1 succeeded: <nil>", "1h0m0s t1 ended: done")
	})
}
