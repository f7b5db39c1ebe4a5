package testkit

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"golang.org/x/tools/txtar"

	"addon-operator/actors"
	"addon-operator/messages/view"

	"addon-operator/actors/scenario"

	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/kube"
)

// Stage is where a script is played many times, one play after the other, with the same files. Plays of two stages may
// run in parallel.
type Stage struct {
	Script string // the steps in the archive
	disk   *disk
}

// NewStage prepares to play a script. Its directory is removed when the test ends.
func NewStage(t *testing.T, archive *txtar.Archive) *Stage {
	t.Helper()
	d := &disk{dir: t.TempDir(), files: map[string][]byte{}}
	for _, f := range archive.Files {
		d.files[f.Name] = f.Data
	}
	return &Stage{string(d.files["script"]), d}
}

// Play plays steps on virtual time, with the files of the stage, and returns what happened. Seed 0 keeps the order in
// which messages arrive; any other draws it.
//
// It plays in a bubble of testing/synctest, whose clock moves only when all its goroutines wait.
// The bubble must be empty at its end, so what runs in it is ended there, also when the test has
// failed. Traces name the directory $DIR, which is another one each time.
func (s *Stage) Play(t *testing.T, script string, seed uint64) *Played {
	t.Helper()
	if err := s.disk.reset(); err != nil {
		t.Fatal(err)
	}
	played := &Played{}
	synctest.Test(t, func(t *testing.T) {
		p := newPlayer(t, s.disk, seed)
		defer func() {
			p.end()
			played.Problems = append(played.Problems, p.observer.problems...)
			played.unusedCrashes = p.crashes.unused()
		}()
		all := steps()
		for _, line := range scriptLines(script) {
			verb, rest, _ := strings.Cut(line, " ")
			switch {
			case strings.HasPrefix(line, comment):
				p.Trace.AddLine(line)
				continue
			case all[verb] == nil:
				t.Fatalf("%s: unknown step %q", line, verb)
			}
			if err := p.step(line, all[verb], strings.TrimSpace(rest)); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		played.look(p) // before the end stops the operator
		played.Trace = strings.ReplaceAll(p.Trace.String()+"\n", s.disk.dir, "$DIR")
	})
	return played
}

// player plays one script. Its goroutine does the steps and hands out turns (settle);
// a mailbox runs in another goroutine, but only during its turn, so what actors and the player share needs no lock.
// Hooks, Helm actions and timers run on their own: releases, hooks, sched, news, modules and observer have
// locks. Most other fields are set by steps before start, and read when the world is made.
type player struct {
	*outside
	t           *testing.T
	disk        *disk
	news        lateNews
	releases    *Releases
	controllers *controllers
	modules     *moduleObjects
	messages    messageCount
	crashes     crashes
	kill        killState

	options actors.World // of all operators of the play, with what steps ask for
	respawn bool         // an operator that was killed is started again at the next step
}

// newPlayer is called in the bubble: a goroutine that waits for a channel from outside of it would
// keep the clock from moving.
func newPlayer(t *testing.T, d *disk, seed uint64) *player {
	t.Helper()
	trace, cluster := NewTrace(), scenario.NewCluster(scenario.DefaultVersion, nil)
	p := &player{
		outside: &outside{scenario.NewEngine(cluster, trace), newScheduler(seed), newObserver()},
		t:       t, disk: d, crashes: crashes{},
	}
	p.World, p.Await, cluster.Note, cluster.Deliver = p.world, p.await, trace.Add, p.news.deliver
	p.releases = &Releases{outside: p.outside}
	objects, err := cluster.Client.ModuleObjects(scenario.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	p.modules = &moduleObjects{objects, p.outside, &p.news}
	if p.controllers, err = newControllers(p.outside); err != nil {
		t.Fatal(err)
	}
	log := trace.Logger(p.observer.logLine)
	runner, err := hooks.NewRunner(hooks.Options{TmpDir: filepath.Join(d.dir, "tmp"), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	p.options = actors.World{
		Services: actors.Services{
			Hooks: &Hooks{outside: p.outside, real: runner, runs: map[string]int{}}, Objects: p.outside,
			Log: log, Releases: p.releases, Plans: p.releases, Metrics: actors.NewMetrics(view.MetricsPrefix), IgnoredRelease: "operator-itself",
			Dirs: addons.Dirs{Modules: []string{d.path("modules")}, Global: d.path("global-hooks"), UnnumberedOrder: 1},
		},
		ReleaseWatch: p.releases, Notices: p.outside, Disk: d.subscribe,
		Dispatcher: p.sched, Observe: p.observe, Crashed: p.markDead,
		ConfigMapName: scenario.ConfigMapName, Namespace: scenario.Namespace,
	}
	return p
}

// step does one step, and settles. With respawn, an operator that was killed in the step before is
// started first, as a kubelet does with a container; it counts as the same replica, which leads.
func (p *player) step(line string, do step, rest string) error {
	if p.respawn && p.kill.killed && p.Operator == nil {
		p.kill.killed = false
		if err := p.start(); err != nil {
			return err
		}
		p.settle()
	}
	p.Trace.AddLine(heading + line)
	counting := p.messages.on // by the step before
	if err := do(p, rest); err != nil {
		return err
	}
	p.settle()
	p.messages.on = p.messages.on && !counting
	return nil
}

// busyLoop is more turns than any step needs at one instant.
const busyLoop = 100_000

// settle takes turns until nothing happens any more at this instant. A turn is taken only when all
// other goroutines of the bubble wait (synctest.Wait), so there is never more than one thing that
// could run, and a play depends on nothing but its seed.
func (p *player) settle() {
	for range busyLoop {
		synctest.Wait()
		p.endKilled()
		turn := p.sched.turn()
		if turn == nil {
			return
		}
		turn()
	}
	p.t.Fatalf("the actors never come to rest at one instant; the trace so far:\n%s", p.Trace)
}

// advance lets time pass: what is due is done at its time. While it waits in the select,
// all goroutines of the bubble wait, and synctest moves the clock to the next timer: one of the
// play, which makes a mailbox ready, or the end.
func (p *player) advance(d time.Duration) {
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		p.settle()
		select {
		case <-p.sched.wake:
		case <-end.C:
			p.settle()
			return
		}
	}
}

// await settles, and lets time pass, until something has returned.
func (p *player) await(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	for {
		p.settle()
		select {
		case err := <-done:
			return err
		case <-p.sched.wake:
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

// world is made again at each start, from what steps have set since.
func (p *player) world() (actors.World, error) {
	world := p.options
	p.observer.oneByOne = !world.Isolate && world.Width <= 1
	if err := p.releases.connect(world.Log); err != nil {
		return world, err
	}
	world.Charts = p.releases.Charts()
	world.CRDs = crds{actors.NewDefinitions(p.Cluster.Client, p.releases.Client, kube.CRDOptions{}), p.outside}
	return world, nil
}

// observe is called in the goroutine of an actor, in its turn, before a message is handled. The interrupt comes first:
// the operator may be killed while others run, and then this message must not be handled.
func (p *player) observe(receiver *actor.PID, message any, asked bool) (handled func()) {
	p.sched.interrupt(receiver.Id)
	p.refuseIfDead(message)
	p.messages.count(receiver, message, asked)
	return p.crashes.observe(receiver, message)
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
	p.controllers.stop()
}
