package supervisor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cenkalti/backoff/v4"

	"addon-operator/supervisor"
)

// F7: 5 s, 10 s, 20 s, 30 s, 30 s, …, never giving up.
func TestBackoffDelays(t *testing.T) {
	delays := supervisor.Backoff()
	for i, want := range []time.Duration{5, 10, 20, 30, 30, 30} {
		if got := delays.NextBackOff(); got != want*time.Second {
			t.Errorf("delay %d is %v, want %v", i+1, got, want*time.Second)
		}
	}
	for range 10000 {
		if got := delays.NextBackOff(); got == backoff.Stop || got != 30*time.Second {
			t.Fatalf("a later delay is %v", got)
		}
	}
}

// F6, F7: the same task again, with growing delays, until it succeeds; then it ends once.
func TestRunIsRestartedWithTheSameTask(t *testing.T) {
	onStage(t, func(s *stage) {
		pid, runs := s.owner("owner")
		s.do(pid, func(ctx actor.Context) { runs().Start(ctx, s.task("t1", failingFor(5))) })
		s.advance(time.Hour)
		s.expect(
			"0s t1 works, 0 failed", "0s t1 failed 1: exit status 1, final false, next in 5s",
			"5s t1 works, 1 failed", "5s t1 failed 2: exit status 1, final false, next in 10s",
			"15s t1 works, 2 failed", "15s t1 failed 3: exit status 1, final false, next in 20s",
			"35s t1 works, 3 failed", "35s t1 failed 4: exit status 1, final false, next in 30s",
			"1m5s t1 works, 4 failed", "1m5s t1 failed 5: exit status 1, final false, next in 30s",
			"1m35s t1 works, 5 failed", "1m35s t1 succeeded: good", "1m35s t1 ended: true",
		)
		s.do(pid, func(actor.Context) {
			if runs().Len() != 0 || runs().Lives("t1") {
				t.Error("a task that has ended is still in progress")
			}
		})
	})
}

// F7: the counter belongs to the task, so a success resets it.
func TestNextTaskBeginsWithTheFirstDelay(t *testing.T) {
	onStage(t, func(s *stage) {
		pid, runs := s.owner("owner")
		for range 2 {
			s.do(pid, func(ctx actor.Context) { runs().Start(ctx, s.task("t1", failingFor(1))) })
			s.advance(5 * time.Second)
		}
		if n := s.count("next in 5s"); n != 2 {
			t.Errorf("%d first delays are 5 s, want 2", n)
		}
		if n := s.count("ended: true"); n != 2 {
			t.Errorf("%d tasks are done, want 2", n)
		}
	})
}

// F6: a task that waits for its next attempt does not hold up others of the same owner.
func TestOtherTasksRunDuringBackoff(t *testing.T) {
	onStage(t, func(s *stage) {
		pid, runs := s.owner("owner")
		s.do(pid, func(ctx actor.Context) {
			runs().Start(ctx, s.task("t1", failingFor(1)))
		})
		s.do(pid, func(ctx actor.Context) {
			runs().Start(ctx, s.task("t2", failingFor(0)))
		})
		s.expect(
			"0s t1 works, 0 failed", "0s t1 failed 1: exit status 1, final false, next in 5s",
			"0s t2 works, 0 failed", "0s t2 succeeded: good", "0s t2 ended: true",
		)
	})
}

// F8: a waiting is cut short; the delays go on growing and the old timer is void.
func TestRetryNow(t *testing.T) {
	onStage(t, func(s *stage) {
		pid, runs := s.owner("owner")
		retry := func(want int) {
			s.do(pid, func(actor.Context) {
				if got := runs().RetryNow(); got != want {
					t.Errorf("%d tasks waited, want %d", got, want)
				}
			})
		}
		retry(0)
		s.do(pid, func(ctx actor.Context) { runs().Start(ctx, s.task("t1", failingFor(2))) })
		s.advance(2 * time.Second)
		retry(1)
		retry(1) // it has failed again and waits again
		s.advance(time.Hour)
		s.expect(
			"0s t1 works, 0 failed", "0s t1 failed 1: exit status 1, final false, next in 5s",
			"2s t1 works, 1 failed", "2s t1 failed 2: exit status 1, final false, next in 10s",
			"2s t1 works, 2 failed", "2s t1 succeeded: good", "2s t1 ended: true",
		)
	})
}

// F8: there is nothing to cut short in a run that works, nor twice in one that waits.
func TestRetryNowLeavesWorkAlone(t *testing.T) {
	onStage(t, func(s *stage) {
		pid, runs := s.owner("owner")
		s.do(pid, func(ctx actor.Context) {
			runs().Start(ctx, s.task("t1", func(*supervisor.Run) (any, error) { time.Sleep(time.Minute); return nil, nil }))
			runs().Start(ctx, s.task("t2", failing))
		})
		s.do(pid, func(actor.Context) {
			if first, second := runs().RetryNow(), runs().RetryNow(); first != 1 || second != 0 {
				t.Errorf("waiting tasks: %d, then %d; want 1, then 0", first, second)
			}
		})
		s.advance(time.Minute)
		if n := s.count("t1 works"); n != 1 {
			t.Errorf("t1 worked %d times", n)
		}
	})
}

// Design 4: a task that waits is gone at once, and stays away.
func TestCancelDuringBackoff(t *testing.T) {
	onStage(t, func(s *stage) {
		pid, runs := s.owner("owner")
		s.do(pid, func(ctx actor.Context) { runs().Start(ctx, s.task("t1", failing)) })
		s.advance(7 * time.Second)
		s.do(pid, func(ctx actor.Context) { runs().CancelAll(supervisor.ErrCancelled) })
		s.advance(time.Hour)
		s.expect(
			"0s t1 works, 0 failed", "0s t1 failed 1: exit status 1, final false, next in 5s",
			"5s t1 works, 1 failed", "5s t1 failed 2: exit status 1, final false, next in 10s",
			"7s t1 ended: false",
		)
	})
}

// Design 2: the context is done at once, the task ends when its work has returned, and
// what it returned does not count.
func TestCancelDuringWork(t *testing.T) {
	for name, result := range map[string]error{"work succeeds all the same": nil, "work fails": errHook} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				pid, runs := s.owner("owner")
				why := errors.New("module is disabled")
				s.do(pid, func(ctx actor.Context) {
					runs().Start(ctx, s.task("t1", func(r *supervisor.Run) (any, error) {
						<-r.Context().Done()
						s.note("cause: %v", context.Cause(r.Context()))
						time.Sleep(3 * time.Second) // the process takes its time to end
						return nil, result
					}))
				})
				s.advance(time.Second)
				s.do(pid, func(ctx actor.Context) {
					runs().CancelAll(why)
					runs().CancelAll(why)
					if runs().Len() != 1 {
						t.Error("a task whose work goes on is not in progress")
					}
				})
				s.advance(time.Hour)
				s.expect("0s t1 works, 0 failed", "1s cause: module is disabled", "4s t1 ended: false")
			})
		})
	}
}

// F12: the first failure is the last, and the task is over.
func TestAllowedFailure(t *testing.T) {
	onStage(t, func(s *stage) {
		pid, runs := s.owner("owner")
		task := s.task("t1", failing)
		task.AllowFailure = true
		s.do(pid, func(ctx actor.Context) { runs().Start(ctx, task) })
		s.advance(time.Hour)
		s.expect("0s t1 works, 0 failed", "0s t1 failed 1: exit status 1, final true, next in 0s", "0s t1 ended: false")
	})
}

// F11: a panic in a task is a failure of that task; its stack is logged.
func TestPanicInWorkIsABug(t *testing.T) {
	for name, c := range map[string]struct {
		panics func()
		want   string
	}{
		"runtime error": {func() { list := strings.Fields(""); list[0] = "x" }, "bug: runtime error: index out of range [0] with length 0"},
		"text":          {func() { panic("what now") }, "bug: what now"},
		"error":         {func() { panic(errors.New("odd")) }, "bug: odd"},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				pid, runs := s.owner("owner")
				s.do(pid, func(ctx actor.Context) {
					runs().Start(ctx, s.task("t1", func(r *supervisor.Run) (any, error) {
						if r.Attempt() == 0 {
							c.panics()
						}
						return "good", nil
					}))
				})
				s.advance(5 * time.Second)
				s.expect("0s t1 works, 0 failed", fmt.Sprintf("0s t1 failed 1: %s, final false, next in 5s", c.want),
					"5s t1 works, 1 failed", "5s t1 succeeded: good", "5s t1 ended: true")
				log := s.log.String()
				if !strings.Contains(log, "a task panicked") || !strings.Contains(log, "TestPanicInWorkIsABug") {
					t.Errorf("the log has no stack of the panic:\n%s", log)
				}
				if n := strings.Count(log, "level="); n != 1 {
					t.Errorf("a bug is logged %d times:\n%s", n, log)
				}
			})
		})
	}
}

// Failures that are no bugs are the owner's to log: the library logs nothing of them.
func TestOrdinaryFailureLogsNothing(t *testing.T) {
	onStage(t, func(s *stage) {
		pid, runs := s.owner("owner")
		s.do(pid, func(ctx actor.Context) { runs().Start(ctx, s.task("t1", failingFor(3))) })
		s.advance(time.Hour)
		if log := s.log.String(); log != "" {
			t.Errorf("logged:\n%s", log)
		}
	})
}

// Design 2: an owner that panics over a result is no failure of the task.
func TestOwnerCrashesOverAResult(t *testing.T) {
	onStage(t, func(s *stage) {
		pid, runs := s.owner("owner")
		task := s.task("t1", failingFor(0))
		task.Succeeded = func(actor.Context, any) { panic("bug in the owner") }
		s.do(pid, func(ctx actor.Context) { runs().Start(ctx, task) })
		if got := s.ends.Load(); got != 1 {
			t.Errorf("the process ended %d times", got)
		}
	})
}

// Q1, Q2: a cancel and a due restart at the same instant never revive a run, whichever
// comes first.
func TestNoRestartAfterAStop(t *testing.T) {
	for range 50 {
		onStage(t, func(s *stage) {
			pid, runs := s.owner("owner")
			ended := false
			task := s.task("t1", func(*supervisor.Run) (any, error) {
				if ended {
					t.Error("a run works after its end")
				}
				return nil, errHook
			})
			task.Ended = func(actor.Context, bool) {
				if ended {
					t.Error("a task ended twice")
				}
				ended = true
			}
			s.do(pid, func(ctx actor.Context) { runs().Start(ctx, task) })
			time.Sleep(5 * time.Second) // without a Wait: the timer fires at this instant, too
			s.Send(pid, call{func(ctx actor.Context) { runs().CancelAll(supervisor.ErrCancelled) }})
			s.advance(time.Hour)
			if !ended {
				t.Error("the task did not end")
			}
		})
	}
}

// Q2: a failure that arrives behind a cancel restarts nothing, though nothing else ends the run but its Stop.
func TestNoRestartOfARunThatIsStopping(t *testing.T) {
	onStage(t, func(s *stage) {
		pid, runs := s.owner("owner")
		s.do(pid, func(ctx actor.Context) {
			runs().Start(ctx, s.task("t1", func(r *supervisor.Run) (any, error) { <-r.Context().Done(); return nil, errHook }))
		})
		s.do(pid, func(actor.Context) {
			runs().CancelAll(supervisor.ErrCancelled)
			time.Sleep(time.Second) // the failure arrives meanwhile
		})
		s.advance(time.Hour)
		s.expect("0s t1 works, 0 failed", "1s t1 ended: false")
	})
}

// F7: the library suspends a run that has failed, and its owner has it restarted: a new worker, which handles what has
// come meanwhile, begins the next attempt.
func TestFailedRunIsSuspendedUntilItIsRestarted(t *testing.T) {
	onStage(t, func(s *stage) {
		pid, runs := s.owner("owner")
		s.do(pid, func(ctx actor.Context) {
			runs().Start(ctx, s.task("t1", func(r *supervisor.Run) (any, error) {
				if r.Attempt() == 1 {
					<-r.Context().Done()
				}
				return nil, errHook
			}))
		})
		run := s.PID("owner/run/t1")
		s.Send(run, "meanwhile")
		for after, waiting := range []int{1, 0} {
			s.advance(time.Duration(after) * 5 * time.Second)
			if n := s.find(run.Id); n == nil || n.UserMessages != waiting {
				t.Errorf("restarts: %d; the run: %+v, want %d messages that wait", after, n, waiting)
			}
		}
	})
}

// Q3: the timer of a run does not hit its namesake.
func TestTimerDoesNotHitANamesake(t *testing.T) {
	onStage(t, func(s *stage) {
		pid, runs := s.owner("owner")
		s.do(pid, func(ctx actor.Context) { runs().Start(ctx, s.task("t1", failing)) })
		s.advance(time.Second)
		s.do(pid, func(ctx actor.Context) { runs().CancelAll(supervisor.ErrCancelled) })
		s.expect("0s t1 works, 0 failed", "0s t1 failed 1: exit status 1, final false, next in 5s", "1s t1 ended: false")
		s.do(pid, func(ctx actor.Context) {
			runs().Start(ctx, s.task("t1", func(*supervisor.Run) (any, error) { time.Sleep(time.Hour); return "good", nil }))
		})
		s.advance(time.Hour)
		s.expect("1s t1 works, 0 failed", "1h0m1s t1 succeeded: good", "1h0m1s t1 ended: true")
	})
}

// Q1, Q3: a timer that has fired before a cancel restarts neither the run nor a namesake that has begun meanwhile.
func TestDueRestartDoesNotHitANamesake(t *testing.T) {
	onStage(t, func(s *stage) {
		pid, runs := s.owner("owner")
		task := s.task("t1", failing)
		task.Ended = func(ctx actor.Context, _ bool) {
			runs().Start(ctx, s.task("t1", func(*supervisor.Run) (any, error) { time.Sleep(time.Hour); return "good", nil }))
		}
		s.do(pid, func(ctx actor.Context) { runs().Start(ctx, task) })
		s.do(pid, func(actor.Context) {
			time.Sleep(6 * time.Second) // its message waits
			runs().CancelAll(supervisor.ErrCancelled)
			time.Sleep(time.Second) // the child is gone
		})
		s.advance(2 * time.Hour)
		s.expect(
			"0s t1 works, 0 failed", "0s t1 failed 1: exit status 1, final false, next in 5s",
			"7s t1 works, 0 failed", "1h0m7s t1 succeeded: good", "1h0m7s t1 ended: true",
		)
	})
}

// F18: an owner that stops takes its runs with it: waiting ones at once, working ones
// when their work has returned.
func TestOwnerStops(t *testing.T) {
	onStage(t, func(s *stage) {
		pid, runs := s.owner("owner")
		s.do(pid, func(ctx actor.Context) {
			runs().Start(ctx, s.task("working", func(r *supervisor.Run) (any, error) {
				<-r.Context().Done()
				time.Sleep(2 * time.Second)
				return nil, nil
			}))
			runs().Start(ctx, s.task("waiting", failing))
		})
		s.Actors.Root.Stop(pid)
		if err := s.Wait(context.Background(), pid); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if s.count("0s waiting ended: false") != 1 || s.count("2s working ended: false") != 1 {
			t.Errorf("happened: %q", s.diary)
		}
	})
}

// F18: a task that was in the mailbox when the stop came is not begun while the owner waits
// for the end of others: it would fail for want of those that are gone already, and be tried
// again until the grace period is over.
func TestTaskThatComesWhileTheOwnerStops(t *testing.T) {
	onStage(t, func(s *stage) {
		pid, runs := s.owner("owner")
		s.do(pid, func(ctx actor.Context) {
			runs().Start(ctx, s.task("working", func(r *supervisor.Run) (any, error) {
				<-r.Context().Done()
				time.Sleep(2 * time.Second)
				return nil, nil
			}))
		})
		s.Actors.Root.Stop(pid)
		synctest.Wait()
		s.do(pid, func(ctx actor.Context) {
			runs().Start(ctx, s.task("late", failing))
		})
		hour, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if err := s.Wait(hour, pid); err != nil {
			t.Fatal(err)
		}
		s.expect("0s working works, 0 failed", "0s late ended: false", "2s working ended: false")
	})
}

// A run asks its owner while it works; a cancel ends the question.
func TestRunAsksItsOwner(t *testing.T) {
	onStage(t, func(s *stage) {
		pid, runs := s.owner("owner")
		s.spawn("other", func() actor.Actor {
			return function(func(ctx actor.Context) {
				if text, ok := ctx.Message().(string); ok && text != "silence" {
					ctx.Respond("answer to " + text)
				}
			})
		})
		s.do(pid, func(ctx actor.Context) {
			runs().Start(ctx, s.task("t1", func(r *supervisor.Run) (any, error) {
				r.Step("asks")
				return supervisor.Ask[string](r, "other", "question")
			}))
		})
		s.expect("0s t1 works, 0 failed", "0s t1 succeeded: answer to question", "0s t1 ended: true")
		s.do(pid, func(ctx actor.Context) {
			allowed := s.task("t3", func(r *supervisor.Run) (any, error) { return supervisor.Ask[int](r, "other", "question") })
			allowed.AllowFailure = true
			runs().Start(ctx, allowed)
		})
		s.expect("0s t3 works, 0 failed", "0s t3 failed 1: bug: actor other answered string with string, final true, next in 0s", "0s t3 ended: false")
		s.do(pid, func(ctx actor.Context) {
			runs().Start(ctx, s.task("t2", func(r *supervisor.Run) (any, error) {
				r.Tell("other", "silence")
				_, err := supervisor.Ask[string](r, "other", "silence")
				s.note("%v", err)
				return nil, err
			}))
		})
		s.advance(time.Hour)
		s.do(pid, func(ctx actor.Context) { runs().CancelAll(supervisor.ErrCancelled) })
		s.expect("0s t2 works, 0 failed", "1h0m0s cancelled", "1h0m0s t2 ended: false")
	})
}

// A message that no one knows is left to the owner.
func TestRunsLeaveOtherMessagesAlone(t *testing.T) {
	onStage(t, func(s *stage) {
		pid, runs := s.owner("owner")
		s.do(pid, func(ctx actor.Context) {
			if runs().Receive(ctx) {
				t.Error("Runs took a message that is not its own")
			}
		})
	})
}
