package testkit

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"golang.org/x/tools/txtar"

	"addon-operator/actors"
	"addon-operator/actors/metrics"
	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/hooks"
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
// parsed at the first play; later ones write again what steps have changed.
type Stage struct {
	disk   *disk
	script []line
	runner *hooks.Runner
}

// line is a step of a script.
type line struct {
	number     int
	text, rest string
	step       step
}

// NewStage prepares to play a script. Its directory is removed when the test ends.
func NewStage(t *testing.T, archive *txtar.Archive) *Stage {
	t.Helper()
	s := &Stage{disk: newDisk(t.TempDir(), archive)}
	if f := s.disk.original["script"]; f != nil {
		s.script = parseSteps(t, string(f.data))
	}
	return s
}

// parseSteps reads the steps of a script.
func parseSteps(t *testing.T, script string) (lines []line) {
	t.Helper()
	words := steps()
	for i, text := range strings.Split(script, "\n") {
		text = strings.TrimSpace(text)
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		verb, rest, _ := strings.Cut(text, " ")
		step, ok := words[verb]
		if !ok {
			t.Fatalf("script line %d: unknown step %q", i+1, verb)
		}
		lines = append(lines, line{i + 1, text, strings.TrimSpace(rest), step})
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
	return s.play(t, parseSteps(t, script), seed)
}

func (s *Stage) play(t *testing.T, script []line, seed uint64) *Played {
	t.Helper()
	if err := s.disk.reset(); err != nil {
		t.Fatal(err)
	}
	played := &Played{}
	synctest.Test(t, func(t *testing.T) {
		p := newPlayer(t, s, seed)
		defer func() {
			p.end()
			played.Problems = append(played.Problems, p.witness.problems...)
			played.unsprung = p.traps.unsprung()
		}()
		p.play(script)
		played.look(p)
		played.looked = p.looked
		played.Problems = append(played.Problems, miscounted(p.metrics, p.trace.String(), p.witness.runs)...)
		played.Trace = strings.ReplaceAll(p.trace.String(), s.disk.dir, "$DIR")
	})
	return played
}

// player plays one script.
type player struct {
	t        *testing.T
	disk     *disk
	trace    *Trace
	sched    *Scheduler
	cluster  *Cluster
	releases *Releases
	hooks    *Hooks
	crds     *crds // nil: modules bring none
	metrics  *metrics.Metrics
	operator *actors.Operator
	lifetime context.Context // of the operator
	writes   context.CancelFunc
	witness  *witness
	isolate  bool
	// away is the ConfigMap between configmap-away and configmap-back.
	away map[string]string
	// allowPurge: no purge is held back.
	allowPurge bool
	// lastValid: the last valid content of the ConfigMap is kept, and a start may use it.
	lastValid bool
	width     int
	traps     *traps
	death     death
	respawn   bool      // an operator that has died is started again at the next step
	looked    []*Played // by the step look
	counting  bool      // messages are counted and traced
	counted   int

	drift       string
	driftPeriod time.Duration
}

func newPlayer(t *testing.T, s *Stage, seed uint64) *player {
	trace := NewTrace()
	p := &player{
		t: t, disk: s.disk, trace: trace, sched: NewScheduler(seed), witness: newWitness(),
		cluster: NewCluster(trace), releases: NewReleases(trace), metrics: metrics.New(metrics.DefaultPrefix),
	}
	p.metrics.ShowOldNames()
	p.traps = &traps{laid: map[trap]bool{}}
	if s.runner == nil || s.disk.hasPrograms() { // it logs into the trace of one play
		runner, err := hooks.NewRunner(hooks.Options{TmpDir: filepath.Join(s.disk.dir, "tmp"), Log: trace.logger(p.witness)})
		if err != nil {
			t.Fatal(err)
		}
		s.runner = runner
	}
	p.hooks = NewHooks(s.runner, trace)
	p.hooks.disk, p.hooks.sched, p.releases.sched = s.disk, p.sched, p.sched
	p.hooks.witness, p.releases.witness = p.witness, p.witness
	p.hooks.cluster, p.releases.cluster = p.cluster, p.cluster
	p.hooks.dead, p.releases.dead, p.cluster.dead = &p.death.dead, &p.death.dead, &p.death.dead
	return p
}

func (p *player) play(script []line) {
	for _, line := range script {
		if p.respawn && p.death.died && p.operator == nil {
			p.death.died, p.death.risen = false, true
			if err := p.start(); err != nil {
				p.t.Fatal(err)
			}
			p.settle()
		}
		p.trace.Heading(line.text)
		p.releases.noteStep()
		p.cluster.notePermission(line.text)
		counting := p.counting // by the step before
		if err := line.step(p, line.rest); err != nil {
			p.t.Fatalf("script line %d: %s: %v", line.number, line.text, err)
		}
		p.settle()
		p.counting = p.counting && !counting
	}
}

// busyLoop is more turns than any step needs at one instant.
const busyLoop = 100_000

// settle takes turns until nothing happens any more at this instant.
func (p *player) settle() {
	for range busyLoop {
		synctest.Wait()
		p.bury()
		if !p.sched.Turn() {
			return
		}
	}
	p.t.Fatalf("the actors are busy for ever at one instant; the trace so far:\n%s", p.trace)
}

// advance lets virtual time pass; what is due is done at its time.
func (p *player) advance(d time.Duration) {
	end := time.NewTimer(d)
	defer end.Stop()
	for {
		p.settle()
		select {
		case <-p.sched.Wake():
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
		case <-p.sched.Wake():
		case <-time.After(time.Second):
		}
	}
}

func (p *player) start() error {
	return p.startBy((*actors.Operator).Start)
}

func (p *player) standBy() error {
	return p.startBy((*actors.Operator).StandBy)
}

func (p *player) startBy(start func(*actors.Operator, context.Context) error) error {
	if p.operator != nil {
		return errors.New("it is running")
	}
	p.witness.oneByOne = !p.isolate && p.width <= 1
	writes, cancel := context.WithCancel(context.Background())
	p.lifetime, p.writes = writes, cancel
	world := actors.World{
		Services: work.Services{
			Log: p.trace.logger(p.witness), Hooks: p.hooks, Releases: p.releases, Plans: p.releases, Objects: p.cluster, Metrics: p.metrics,
			Width: p.width, Writes: writes, IgnoredRelease: "operator-itself",
			Dirs: addons.Dirs{Modules: []string{filepath.Join(p.disk.dir, "modules")}, Global: filepath.Join(p.disk.dir, "global-hooks"), UnnumberedOrder: 1},
		},
		ReleaseWatch: p.releases, ConfigMap: p.cluster, Secret: clusterSecret{p.cluster}, Notices: p.cluster,
		Watch: p.cluster.WatchObjects, WentBack: p.cluster.WentBack,
		Isolate: p.isolate, Drift: p.drift, DriftPeriod: p.driftPeriod, Dispatcher: p.sched,
		AllowPurge: p.allowPurge, PurgeShare: actors.DefaultPurgeShare, ConfigMapName: operatorConfigMap, Namespace: operatorNamespace,
	}
	if p.lastValid {
		world.LastValid = lastValid{p.cluster}
	}
	if p.crds != nil {
		world.CRDs = p.crds
	}
	world.Observe = func(receiver *actor.PID, message any, asked bool) func() {
		p.sched.interrupt(receiver.Id)
		p.death.forget(message)
		if p.counting {
			p.count(receiver, message, asked)
		}
		if len(p.traps.laid) > 0 { // each message costs more
			return p.traps.observe(receiver, message)
		}
		return func() {}
	}
	world.Crashed = p.die
	operator := actors.New(world)
	p.operator = operator
	if err := p.await(func() error { return start(operator, writes) }); err != nil && p.operator == operator {
		p.trace.Add("start refused: %s", strings.ReplaceAll(err.Error(), "\n", "\n          "))
		p.operator = nil
	}
	return nil
}

func (p *player) stop() error {
	if p.operator == nil {
		return nil
	}
	operator := p.operator
	p.death.stopping = true
	err := p.await(func() error { return operator.Stop(context.Background()) })
	p.death.stopping = false
	if n := len(operator.Inspector().Tree()); n > 0 && err == nil {
		err = fmt.Errorf("%d actors are left", n)
	}
	p.rise()
	p.writes()
	return err
}

// end leaves the bubble without goroutines, also after a failed test.
func (p *player) end() {
	if err := p.stop(); err != nil {
		p.t.Error(err)
	}
	time.Sleep(2 * time.Second) // the library throttles its dead letters by a goroutine that lives 1 s
	synctest.Wait()
	p.sched.end()
}
