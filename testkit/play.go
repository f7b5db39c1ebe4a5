package testkit

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"golang.org/x/tools/txtar"

	"addon-operator/actors"
	"addon-operator/actors/metrics"
	"addon-operator/actors/scenario"
	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/kube"
)

// Play plays the steps of a lifecycle script on virtual time and returns what happened.
// Seed 0 keeps the order in which messages arrive, or the one that the script asks for;
// any other draws it.
func Play(t *testing.T, archive *txtar.Archive, seed uint64) *Played {
	t.Helper()
	return NewStage(t, archive).Play(t, seed)
}

// Stage is where a script is played many times, one play after the other: what does not
// change between plays is made once. Its files are written and its scripted hooks are
// parsed at the first play; later ones write again what steps have changed. Plays of two stages may
// run in parallel.
type Stage struct {
	disk   *disk
	steps  map[string]step
	script []scenario.Line
	runner *hooks.Runner // nil before the first play
}

// NewStage prepares to play a script. Its directory is removed when the test ends.
func NewStage(t *testing.T, archive *txtar.Archive) *Stage {
	t.Helper()
	s := &Stage{disk: newDisk(t.TempDir(), archive), steps: steps()}
	if f := s.disk.original["script"]; f != nil {
		s.script = s.parseSteps(t, string(f.data))
	}
	return s
}

// parseSteps reads the steps of a script. An unknown step ends the test before anything is played.
func (s *Stage) parseSteps(t *testing.T, script string) (lines []scenario.Line) {
	t.Helper()
	for _, text := range scriptLines(script) {
		if strings.HasPrefix(text, "#") {
			continue
		}
		verb, rest, _ := strings.Cut(text, " ")
		if s.steps[verb] == nil {
			t.Fatalf("step %d, %s: unknown step %q", len(lines)+1, text, verb)
		}
		lines = append(lines, scenario.Line{Place: fmt.Sprintf("step %d: %s", len(lines)+1, text), Verb: verb, Rest: strings.TrimSpace(rest)})
	}
	return lines
}

// Play plays the script once; see the function [Play] for the seed.
func (s *Stage) Play(t *testing.T, seed uint64) *Played {
	t.Helper()
	return s.play(t, s.script, seed)
}

// PlaySteps plays other steps with the files of the script.
func (s *Stage) PlaySteps(t *testing.T, script string, seed uint64) *Played {
	t.Helper()
	return s.play(t, s.parseSteps(t, script), seed)
}

// play plays in a bubble of testing/synctest, whose clock moves only when all its goroutines wait.
// The bubble must be empty at its end, so what runs in it is ended there, also when the test has
// failed. Traces name the directory $DIR, which is another one each time.
func (s *Stage) play(t *testing.T, script []scenario.Line, seed uint64) *Played {
	t.Helper()
	if err := s.disk.reset(partsFor(script)); err != nil {
		t.Fatal(err)
	}
	played := &Played{}
	synctest.Test(t, func(t *testing.T) {
		p := newPlayer(t, s, seed)
		defer func() {
			p.end()
			played.Problems = append(played.Problems, p.observer.problems...)
			played.unusedCrashes = p.crashes.unused()
		}()
		if err := p.Play(t.Context(), script, p.step); err != nil {
			t.Fatal(err)
		}
		played.look(p) // before the end stops the operator
		played.Trace = strings.ReplaceAll(p.traced(), s.disk.dir, "$DIR")
	})
	return played
}

// player plays one script. It is the driver of its engine. Its goroutine does the steps and hands out turns (settle);
// a mailbox runs in another goroutine, but only during its turn, so what actors and the player share needs no lock.
// Hooks, Helm actions and timers run on their own: releases, hooks, sched, news, modules, observer and crashes have
// locks. Most other fields are set by steps before start, and read when the world is made.
type player struct {
	*scenario.Engine
	t           *testing.T
	steps       map[string]step
	disk        *disk
	sched       *scheduler
	news        lateNews
	releases    *Releases
	controllers *controllers
	changes     changes
	hooks       *Hooks
	metrics     *metrics.Metrics // of all operators of the play
	observer    *observer
	modules     *moduleObjects
	isolate     bool
	hookWaits   bool // Helm hooks do: what follows a wait may run outside of the main queue
	// unordered traces are sorted within an instant.
	unordered bool
	notices   diskNotices
	messages  messageCount
	// secretForbidden: the operator may not read the Secret with values.
	secretForbidden bool
	// away is the ConfigMap between configmap-away and configmap-back; else nil.
	away map[string]string
	// allowPurge: no purge is held back.
	allowPurge bool
	// lastValid: the last valid content of the ConfigMap is kept, and a start may use it.
	lastValid bool
	width     int // modules of one order that run in parallel; 0 and 1: one
	// snapshotLimit is in bytes; 0 for none.
	snapshotLimit int
	crashes       *crashes
	// showsModules: the operator knows the kind Module.
	showsModules bool
	kill         killState
	respawn      bool // an operator that was killed is started again at the next step

	drift       string
	driftPeriod time.Duration
}

// newPlayer is called in the bubble: a goroutine that waits for a channel from outside of it would
// keep the clock from moving.
func newPlayer(t *testing.T, s *Stage, seed uint64) *player {
	trace, cluster := NewTrace(), scenario.NewCluster(scenario.DefaultVersion, nil)
	p := &player{
		Engine: scenario.NewEngine(cluster, trace), t: t, steps: s.steps, disk: s.disk, sched: newScheduler(seed), observer: newObserver(),
		metrics: metrics.New(metrics.DefaultPrefix),
	}
	p.Driver, cluster.Note, cluster.Deliver = p, trace.Add, p.news.deliver
	p.releases = newReleases(cluster, trace)
	p.releases.sched, p.releases.faults, p.releases.observer = p.sched, p.Faults, p.observer
	p.modules = &moduleObjects{cluster: cluster, trace: trace, sched: p.sched, crossed: map[string]func() error{}}
	var err error
	if p.modules.ModuleObjects, err = cluster.Client.ModuleObjects(scenario.Namespace); err != nil {
		t.Fatal(err)
	}
	if p.controllers, err = newControllers(cluster, trace, p.sched); err != nil {
		t.Fatal(err)
	}
	p.crashes = &crashes{points: map[crashPoint]bool{}}
	if s.runner == nil || s.disk.hasPrograms() { // it logs into the trace of one play
		runner, err := hooks.NewRunner(hooks.Options{TmpDir: filepath.Join(s.disk.dir, "tmp"), Log: trace.Logger(slog.LevelDebug, p.observer.logLine)})
		if err != nil {
			t.Fatal(err)
		}
		s.runner = runner
	}
	p.hooks = NewHooks(s.runner, trace)
	p.hooks.disk, p.hooks.sched, p.hooks.observer, p.hooks.cluster, p.hooks.faults = s.disk, p.sched, p.observer, cluster, p.Faults
	return p
}

// step does one step, and settles. With respawn, an operator that was killed in the step before is
// started first, as a kubelet does with a container; it counts as the same replica, which leads.
func (p *player) step(l scenario.Line) error {
	if p.respawn && p.kill.killed && p.Operator == nil {
		p.kill.killed, p.kill.restarted = false, true
		if err := p.start(); err != nil {
			return err
		}
		p.settle()
	}
	_, text, _ := strings.Cut(l.Place, ": ")
	p.Trace.AddLine(heading + text)
	counting := p.messages.on // by the step before
	if err := p.steps[l.Verb](p, l.Rest); err != nil {
		return err
	}
	p.settle()
	p.messages.on = p.messages.on && !counting
	return nil
}

// busyLoop is more turns than any step needs at one instant.
const busyLoop = 100_000

// Settle implements scenario.Driver.
func (p *player) Settle(context.Context) error {
	p.settle()
	return nil
}

// settle takes turns until nothing happens any more at this instant. A turn is taken only when all
// other goroutines of the bubble wait (synctest.Wait), so there is never more than one thing that
// could run, and a play depends on nothing but its seed.
func (p *player) settle() {
	for range busyLoop {
		synctest.Wait()
		p.endKilled()
		if !p.sched.turn() {
			return
		}
	}
	p.t.Fatalf("the actors never come to rest at one instant; the trace so far:\n%s", p.Trace)
}

// Advance implements scenario.Driver: what is due is done at its time. While it waits in the select,
// all goroutines of the bubble wait, and synctest moves the clock to the next timer: one of the
// play, which makes a mailbox ready, or the end.
func (p *player) Advance(_ context.Context, d time.Duration) error {
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		p.settle()
		select {
		case <-p.sched.woken():
		case <-end.C:
			p.settle()
			return nil
		}
	}
}

// Await implements scenario.Driver: it settles, and lets time pass, until something has returned.
func (p *player) Await(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	for {
		p.settle()
		select {
		case err := <-done:
			return err
		case <-p.sched.woken():
		case <-time.After(time.Second): // f may wait for nothing but time
		}
	}
}

func (p *player) start() error {
	err := p.Start((*actors.Operator).Start)
	if err == nil && p.Refused != nil {
		p.Trace.Add("start refused: %s", strings.ReplaceAll(p.Refused.Error(), "\n", "\n          "))
	}
	return err
}

// World implements scenario.Driver. It is made again at each start, from what steps have set since.
func (p *player) World() (shared.World, error) {
	p.observer.oneByOne = !p.isolate && p.width <= 1 && !p.hookWaits
	log := p.Trace.Logger(slog.LevelDebug, p.observer.logLine)
	if err := p.releases.connect(log); err != nil {
		return shared.World{}, err
	}
	world := shared.World{
		Services: work.Services{
			Log: log, Hooks: p.hooks, Releases: p.releases, Plans: p.releases, Metrics: p.metrics,
			Charts: p.releases.Charts(), CRDs: crds{work.NewDefinitions(p.Cluster.Client, p.releases.Client, kube.CRDOptions{}), p.Trace, p.Faults, p.sched},
			Width: p.width, IgnoredRelease: "operator-itself",
			Dirs: addons.Dirs{Modules: []string{filepath.Join(p.disk.dir, "modules")}, Global: filepath.Join(p.disk.dir, "global-hooks"), UnnumberedOrder: 1},
		},
		ReleaseWatch: p.releases, Notices: notices{p.Trace}, Disk: p.notices.subscribe,
		Isolate: p.isolate, Drift: p.drift, DriftPeriod: p.driftPeriod, Dispatcher: p.sched,
		SnapshotLimit: p.snapshotLimit, AllowPurge: p.allowPurge, ConfigMapName: scenario.ConfigMapName, Namespace: scenario.Namespace,
	}
	if p.secretForbidden {
		world.Secret = forbiddenSecret{p.Cluster.Secret}
	}
	if p.lastValid {
		world.LastValid = lastValid{p.Cluster}
	}
	if p.showsModules {
		world.ModuleObjects = p.modules
	}
	// Called in the goroutine of the actor, in its turn. The interrupt comes first: the operator
	// may be killed while others run, and then this message must not be handled.
	world.Observe = func(receiver *actor.PID, message any, asked bool) func() {
		p.sched.interrupt(receiver.Id)
		p.refuseIfDead(message)
		p.messages.count(receiver, message, asked)
		if len(p.crashes.points) > 0 { // each message costs more
			return p.crashes.observe(receiver, message)
		}
		return func() {}
	}
	world.Crashed = p.markDead
	return world, nil
}

// stop stops the operator, and checks that no actor outlives that. If an operator is killed during
// the stop, the stop ends it (kill.go), so that a step after the stop can start the next one.
func (p *player) stop() error {
	if p.Operator == nil {
		return nil
	}
	actors := p.Operator.Inspector()
	p.kill.stopping = true
	err := p.Stop(context.Background())
	if n := len(actors.Tree()); n > 0 && err == nil {
		err = fmt.Errorf("%d actors are left", n)
	}
	p.kill.stopping = false
	p.clearKilled()
	return err
}

// end leaves the bubble without goroutines, also after a failed test.
func (p *player) end() {
	if err := p.stop(); err != nil {
		p.t.Error(err)
	}
	time.Sleep(2 * time.Second) // the library throttles its dead letters by a goroutine that lives 1 s
	p.controllers.end()
	synctest.Wait()
	p.sched.end()
}
