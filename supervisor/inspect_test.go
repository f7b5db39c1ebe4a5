package supervisor_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/supervisor"
	"addon-operator/testkit/golden"
)

func quietLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// find returns one actor of the dump.
func (s *stage) find(path string) *supervisor.Node {
	for _, n := range s.Inspector.Nodes() {
		if n.Path == path {
			return n
		}
	}
	return nil
}

type phase string

func (p phase) String() string { return string(p) }

// Design 7: all actors, each before its children.
func TestNodes(t *testing.T) {
	onStage(t, func(s *stage) {
		root := s.spawn("operator", silent)
		s.spawn("another", silent)
		s.do(root, func(ctx actor.Context) {
			for _, name := range []string{"queue/main", "module/dns", "module-objects", "module/auth"} {
				if _, err := ctx.SpawnNamed(s.Props(silent), name); err != nil {
					t.Error(err)
				}
			}
		})
		s.advance(time.Minute)
		var paths []string
		for _, n := range s.Inspector.Nodes() {
			paths = append(paths, n.Path)
		}
		if got, want := strings.Join(paths, " "), "another operator operator/module-objects operator/module/auth operator/module/dns operator/queue/main"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if n := s.find("operator/module/dns"); n.Current != "" || n.InStateSeconds != 60 {
			t.Errorf("an idle actor: %+v", *n)
		}
	})
}

// Design 7: a dump answers while actors are stuck, and says in what and for how long.
func TestBusyActor(t *testing.T) {
	onStage(t, func(s *stage) {
		pid := s.spawn("slow", silent)
		s.advance(time.Second)
		s.do(pid, func(actor.Context) { time.Sleep(time.Hour) })
		s.Send(pid, "behind it")
		s.Send(pid, "behind it")
		s.advance(90 * time.Second)
		n := s.find("slow")
		if n.Current != "supervisor_test.call" || n.InStateSeconds != 90 || n.UserMessages != 2 {
			t.Errorf("a busy actor: %+v", *n)
		}
		s.Actors.Root.Stop(pid)
	})
}

// Design 7: a run in backoff says when it goes on.
func TestRunInBackoff(t *testing.T) {
	onStage(t, func(s *stage) {
		pid, runs := s.owner("owner")
		s.do(pid, func(ctx actor.Context) {
			runs().Start(ctx, s.task("t1", func(r *supervisor.Run) (any, error) {
				r.Step("hook %s", "a.sh")
				if r.Attempt() == 1 {
					<-r.Context().Done()
				}
				return nil, errHook
			}))
		})
		s.advance(2 * time.Second)
		n := s.find("owner/run/t1")
		want := supervisor.RunStatus{Attempt: 1, RetryAt: s.began.Add(5 * time.Second), Error: "exit status 1"}
		if n == nil || n.Current != "" || n.InStateSeconds != 2 || n.Status != want {
			t.Fatalf("a run that waits: %+v", n)
		}
		s.advance(4 * time.Second)
		n = s.find("owner/run/t1")
		if n.Current != "supervisor.begin" || n.Status.String() != "hook a.sh (failed attempts: 1)" {
			t.Errorf("a run that was restarted: %+v", *n)
		}
	})
}

// Whoever is gone is not shown, however it went.
func TestGoneActorsAreForgotten(t *testing.T) {
	cases := map[string]func(s *stage, pid *actor.PID){
		"stopped":     func(s *stage, pid *actor.PID) { s.Actors.Root.Stop(pid) },
		"poisoned":    func(s *stage, pid *actor.PID) { s.Actors.Root.Poison(pid) },
		"from within": func(s *stage, pid *actor.PID) { s.do(pid, func(ctx actor.Context) { ctx.Stop(ctx.Self()) }) },
		"with children": func(s *stage, pid *actor.PID) {
			s.do(pid, func(ctx actor.Context) { ctx.Spawn(s.Props(silent)) })
			s.Actors.Root.Stop(pid)
		},
	}
	for name, end := range cases {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				pid := s.spawn("someone", silent)
				s.Inspector.Publish(pid, phase("ready"))
				if got := s.Inspector.Status("someone"); got != phase("ready") {
					t.Errorf("its status is %v", got)
				}
				end(s, pid)
				s.advance(time.Second)
				if all := s.Inspector.Nodes(); len(all) != 0 {
					t.Errorf("still there: %+v", *all[0])
				}
				if got := s.Inspector.Status("someone"); got != nil {
					t.Errorf("its status is still %v", got)
				}
				s.Inspector.Publish(pid, phase("late")) // must be harmless
			})
		})
	}
}

// A namesake that is spawned at once has its own history.
func TestNamesakeBeginsAnew(t *testing.T) {
	onStage(t, func(s *stage) {
		pid := s.spawn("someone", silent)
		s.Inspector.Publish(pid, phase("of the first"))
		s.advance(time.Second)
		s.Actors.Root.Stop(pid)
		s.advance(time.Second)
		s.spawn("someone", silent)
		s.advance(0)
		if n := s.find("someone"); n == nil || n.InStateSeconds != 0 || n.Status != nil {
			t.Errorf("the namesake: %+v", n)
		}
	})
}

func exampleNodes(at time.Time) []*supervisor.Node {
	return []*supervisor.Node{
		{Path: "operator", InStateSeconds: 12.34, Status: phase("")},
		{Path: "operator/module/dns", InStateSeconds: 3.14159, Status: phase("running")},
		{
			Path: "operator/module/dns/run/17", Current: "supervisor.begin", InStateSeconds: 65, UserMessages: 3,
			Status: supervisor.RunStatus{Step: "helm", Attempt: 2},
		},
		{Path: "operator/module/dns/run/18", InStateSeconds: 0.004, Status: supervisor.RunStatus{Attempt: 3, RetryAt: at, Error: "exit status 1"}},
		{Path: "operator/queue/main"},
	}
}

// The text of a dump is read by people in bad moments: it is golden.
func TestWriteText(t *testing.T) {
	var out bytes.Buffer
	if err := supervisor.WriteText(&out, exampleNodes(time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC))); err != nil {
		t.Fatal(err)
	}
	golden.File(t, "testdata/dump.txt", out.String())
}

func TestNodeAsJSON(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	got, err := json.Marshal(exampleNodes(at)[3])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"path":"operator/module/dns/run/18","inStateSeconds":0.004,"userMessages":0,` +
		`"status":{"failedAttempts":3,"retryAt":"2026-01-02T15:04:05Z","error":"exit status 1"}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestRunStatusAsText(t *testing.T) {
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for want, status := range map[string]supervisor.RunStatus{
		"":                          {},
		"helm":                      {Step: "helm"},
		"helm (failed attempts: 2)": {Step: "helm", Attempt: 2},
		"waits until 15:04:05, failed attempts: 1: exit status 1": {Attempt: 1, RetryAt: at, Error: "exit status 1"},
	} {
		if got := status.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
