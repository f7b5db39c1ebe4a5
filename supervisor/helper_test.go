package supervisor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/supervisor"
)

// stage is one actor system on virtual time. Its diary notes what happens and when.
type stage struct {
	*supervisor.System
	t    *testing.T
	log  *lockedBuffer
	ends atomic.Int32 // how often the process would have ended

	mu    sync.Mutex
	began time.Time
	diary []string
	roots []*actor.PID
}

// lockedBuffer takes log lines from several goroutines.
type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// onStage plays a test in a bubble of virtual time. At the end all root actors must be
// able to stop: a run that was forgotten fails the test.
func onStage(t *testing.T, play func(*stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		log := &lockedBuffer{}
		s := &stage{t: t, log: log, began: time.Now()}
		s.System = supervisor.NewSystem(supervisor.Options{
			Log:     slog.New(slog.NewTextHandler(log, nil)),
			Crashed: func() { s.ends.Add(1) },
		})
		defer s.end()
		play(s)
	})
}

func (s *stage) end() {
	for _, pid := range s.roots {
		s.Actors.Root.Stop(pid)
		ctx, cancel := context.WithTimeout(context.Background(), 24*time.Hour)
		if err := s.Wait(ctx, pid); err != nil {
			s.t.Error(err)
		}
		cancel()
	}
	s.Close()
	s.advance(2 * time.Second) // the library's throttle of dead letters lives for one
}

// advance lets time pass and waits until everything that was due has happened.
func (s *stage) advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (s *stage) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.diary = append(s.diary, fmt.Sprintf("%v ", time.Since(s.began))+fmt.Sprintf(format, args...))
}

// expect compares the diary, and empties it.
func (s *stage) expect(want ...string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Join(s.diary, "\n"); got != strings.Join(want, "\n") {
		s.t.Errorf("happened:\n%s\nwanted:\n%s", got, strings.Join(want, "\n"))
	}
	s.diary = nil
}

func (s *stage) count(part string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.diary {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

func (s *stage) spawn(name string, producer actor.Producer) *actor.PID {
	s.t.Helper()
	pid, err := s.System.Spawn(name, producer)
	if err != nil {
		s.t.Fatal(err)
	}
	s.roots = append(s.roots, pid)
	return pid
}

// do has an actor of this file call f in its own goroutine, and waits for it.
func (s *stage) do(pid *actor.PID, f func(actor.Context)) {
	s.Send(pid, call{f})
	synctest.Wait()
}

type call struct{ do func(actor.Context) }

// function is an actor made of a function; [call] is understood by all.
type function func(actor.Context)

func (f function) Receive(ctx actor.Context) {
	if msg, ok := ctx.Message().(call); ok {
		msg.do(ctx)
		return
	}
	f(ctx)
}

func silent() actor.Actor { return function(func(actor.Context) {}) }

// owner is an actor that supervises runs.
type owner struct{ *supervisor.Runs }

func (o *owner) Receive(ctx actor.Context) {
	if o.Runs.Receive(ctx) {
		return
	}
	if msg, ok := ctx.Message().(call); ok {
		msg.do(ctx)
	}
}

// owner spawns one; runs gives the supervision of its present incarnation.
func (s *stage) owner(name string) (pid *actor.PID, runs func() *supervisor.Runs) {
	s.t.Helper()
	var mu sync.Mutex
	var current *owner
	pid = s.spawn(name, func() actor.Actor {
		mu.Lock()
		defer mu.Unlock()
		current = &owner{supervisor.NewRuns(s.System)}
		return current
	})
	return pid, func() *supervisor.Runs {
		mu.Lock()
		defer mu.Unlock()
		return current.Runs
	}
}

// task notes all that happens to it.
func (s *stage) task(id string, work func(*supervisor.Run) (any, error)) supervisor.Task {
	return supervisor.Task{
		ID: id,
		Work: func(r *supervisor.Run) (any, error) {
			s.note("%s works, %d failed", id, r.Attempt())
			return work(r)
		},
		Succeeded: func(_ actor.Context, result any) { s.note("%s succeeded: %v", id, result) },
		Failed: func(a supervisor.Attempt) {
			s.note("%s failed %d: %v, final %v, next in %v", id, a.Number, a.Err, a.Final, a.In)
		},
		Ended: func(_ actor.Context, done bool) { s.note("%s ended: %t", id, done) },
	}
}

var errHook = errors.New("exit status 1")

func failing(*supervisor.Run) (any, error) { return nil, errHook }

// failingFor fails the first n attempts.
func failingFor(n int) func(*supervisor.Run) (any, error) {
	return func(r *supervisor.Run) (any, error) {
		if r.Attempt() < n {
			return nil, errHook
		}
		return "good", nil
	}
}
