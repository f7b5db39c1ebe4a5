package testkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"golang.org/x/tools/txtar"

	"addon-operator/actors"
	"addon-operator/actors/scenario"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages/view"
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
		ConfigMapName: scenario.ConfigMapName, Namespace: scenario.Namespace,
	}
	actors := &p.options.Mailboxes
	actors.Dispatcher, actors.Observe, actors.Crashed = p.sched, p.observe, p.markDead
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
// the stop, the stop ends it, so that a step after the stop can start the next one.
func (p *player) stop() error {
	if p.Operator == nil {
		return nil
	}
	actors := p.Operator.Inspector()
	p.kill.stopping = true
	err := p.Stop(context.Background())
	if n := len(actors.Nodes()); n > 0 && err == nil {
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

// Played is what was left after a script, before its operator was stopped.
type Played struct {
	Trace string
	// Left is what a person would find: releases with their values, the ConfigMap, and the phases of modules that are
	// not disabled; one whose directory is gone has no actor after a start. How it came to that, and when, is not in
	// it.
	Left string
	// Converged: the operator was ready, and no queue had a task.
	Converged bool
	// Problems are what must not be in any script: messages without a handler, two
	// things at the same time that exclude each other, actors that outlive the stop.
	Problems []string

	unusedCrashes []string // crashes of the script that did not happen
}

// look fills in what is there now.
func (r *Played) look(p *player) {
	phases, queues := map[string]view.Phase{}, map[string]string{}
	var converge view.ConvergeStatus
	var incomplete []string
	p.Visit(func(path string, published fmt.Stringer) {
		name := path[strings.LastIndex(path, "/")+1:]
		switch status := published.(type) {
		case view.ModuleStatus:
			if status.Phase != view.Disabled {
				phases[name] = status.Phase
			}
		case view.QueueStatus:
			if status.Length > 0 {
				queues[name] = status.String()
			}
		case view.ConvergeStatus:
			converge = status
		case view.MonitorsStatus:
			for _, b := range status.Bindings {
				if b.Held > 0 || b.Phase != "complete" {
					text := fmt.Sprintf("%s %s/%s is %s and holds %d", b.Owner, b.Hook, b.Binding, b.Phase, b.Held)
					incomplete = append(incomplete, text)
				}
			}
		}
	})
	slices.Sort(incomplete)
	r.Converged = converge.Ready && len(queues) == 0
	r.Left = fmt.Sprintf("converge: %s, ready %t, enabled %q\nphases: %v\nqueues: %v\nbindings: %q\n",
		converge.Phase, converge.Ready, converge.Enabled, phases, queues, incomplete)
	r.Left += fmt.Sprintf("releases: %v\nConfigMap: %v\n", p.releases.deployedValues(), p.Cluster.ConfigMap.Data())
}

// killState is the state of an operator that is killed: by the step kill, or by the crash of one of its
// actors. As after kill -9, none of its actors handles another message (refuseIfDead), none of its hooks,
// writes and Helm actions has another effect, and nothing of it is in the trace any more
// (Trace.Dead). But its goroutines are in the process of the test, so they must be ended in good
// order, at the same instant (endKilled), before the next operator can start (clearKilled).
type killState struct {
	stopping bool // a stop had begun before the kill; it does the work of endKilled
	ending   bool // endKilled settles, which calls endKilled again
	killed   bool // and not started again since
}

// refuseIfDead keeps an actor of a dead operator from handling a message, by a panic, which the
// supervisor takes for another crash. Messages of the library, which are pointers, must arrive:
// they end actors.
func (p *player) refuseIfDead(message any) {
	if p.Trace.Dead.Load() && reflect.TypeOf(message).Kind() != reflect.Pointer {
		panic("dead")
	}
}

// markDead marks the operator as dead. It may be called in the goroutine of an actor, also of one of
// several that crash; the player does the rest when it settles.
func (p *player) markDead() {
	if p.Operator != nil {
		p.Trace.Dead.Store(true)
	}
}

// endKilled ends the goroutines of an operator that was killed.
func (p *player) endKilled() {
	if !p.Trace.Dead.Load() || p.kill.ending {
		return
	}
	p.kill.ending = true
	p.End()
	p.Operator.Send("", &actor.PoisonPill{})
	if p.kill.stopping { // player.stop waits for the end, and calls clearKilled
		return
	}
	if err := p.Await(func() error { return p.Operator.Stop(context.Background()) }); err != nil {
		p.t.Error(err)
	}
	p.clearKilled()
	p.kill.killed = true
}

// clearKilled resets the state, so that the next operator can start.
func (p *player) clearKilled() {
	p.Operator = nil
	p.kill.ending = false
	p.Trace.Dead.Store(false)
}

// crashes make an actor panic over a message, as a bug in its handler would: at its beginning, when nothing has
// changed yet, or at its end, when everything has. The operator ends with that, as at a kill (supervisor/inspect.go).
// Each is used once. A point is written as in scripts: ACTOR over MESSAGE, or ACTOR after MESSAGE, with the path of
// the actor below the root, or * for any. Only turns and the goroutine of the play touch it.
type crashes map[string]bool

func stepCrash(p *player, point string) error {
	if words := strings.Fields(point); len(words) != 3 || words[1] != "over" && words[1] != "after" {
		return errors.New("it is neither 'ACTOR over MESSAGE' nor 'ACTOR after MESSAGE'")
	}
	p.crashes[point] = true
	return nil
}

// unused lists the points that no message has reached: a script with one proves less than it states.
func (c crashes) unused() (list []string) {
	for point := range c {
		list = append(list, fmt.Sprintf("nothing crashed at %q: no such message was sent", point))
	}
	return list
}

// observe is called before each message is handled, and the function that it returns afterwards.
func (c crashes) observe(receiver *actor.PID, message any) (handled func()) {
	crash := func(when string) {
		if len(c) == 0 { // most plays: what follows costs more
			return
		}
		_, path, _ := strings.Cut(receiver.Id, "/")
		name := reflect.Indirect(reflect.ValueOf(message)).Type().Name() // those of the library are pointers
		for _, who := range []string{cmp.Or(path, "root"), "*"} {
			if point := who + " " + when + " " + name; c[point] {
				delete(c, point)
				panic("crash over " + name)
			}
		}
	}
	crash("over")
	return func() { crash("after") }
}

// scheduler is a dispatcher that hands out turns one at a time, so that a test decides in which
// order mailboxes run. A turn lets one mailbox handle its messages, or one goroutine go on that
// waits (await). The player takes a turn only when nothing else can run. It is called from timers
// and runs too, hence the lock, which is never held during a turn.
type scheduler struct {
	mu      sync.Mutex
	ready   []func()      // mailboxes with messages, in the order of arrival
	waiting []waiter      // goroutines that wait for their turn, by name
	rnd     *rand.Rand    // nil: in the order of arrival
	wake    chan struct{} // has an element when something became ready; more are of no use
}

// waiter is a goroutine that waits for its turn, or a call that was put off until then (later).
type waiter struct {
	name string
	turn func()
}

var _ actor.Dispatcher = (*scheduler)(nil)

// newScheduler returns a scheduler that draws the order from a seed; seed 0 keeps the
// order of arrival.
func newScheduler(seed uint64) *scheduler {
	s := &scheduler{wake: make(chan struct{}, 1)}
	if seed != 0 {
		s.rnd = rand.New(rand.NewPCG(seed, seed))
	}
	return s
}

// Schedule implements actor.Dispatcher.
func (s *scheduler) Schedule(turn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = append(s.ready, turn)
	s.wakes()
}

// await blocks the goroutine until it is its turn. Goroutines that wake at one instant
// come in an order that cannot be repeated; those that wait here go on in that of their names.
// A nil scheduler lets each go on at once.
func (s *scheduler) await(name string) {
	if s == nil {
		return
	}
	turn := make(chan struct{})
	s.enter(waiter{name, func() { close(turn) }})
	<-turn
}

// later calls f when it is its turn, for callers that must not wait.
func (s *scheduler) later(name string, f func()) { s.enter(waiter{name, func() { go f() }}) }

// enter puts a waiter behind those whose names come before its own, or are the same.
func (s *scheduler) enter(w waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.waiting, func(other waiter) bool { return other.name > w.name })
	if at < 0 {
		at = len(s.waiting)
	}
	s.waiting = slices.Insert(s.waiting, at, w)
	s.wakes()
}

// interrupt is called between two messages of a mailbox. The library empties a mailbox in
// one turn; when the order is drawn, others come first once in eight times: it costs as much as a turn.
func (s *scheduler) interrupt(mailbox string) {
	s.mu.Lock()
	breaks := s.rnd != nil && s.rnd.IntN(8) == 0
	s.mu.Unlock()
	if breaks {
		s.await(mailbox)
	}
}

func (s *scheduler) wakes() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Throughput implements actor.Dispatcher. The library makes a pause after so many messages,
// but no end: a turn lasts until the mailbox is empty.
func (s *scheduler) Throughput() int { return 1 }

// turn takes out who is next: in the order of arrival, goroutines that wait come first. It is nil when there is none.
func (s *scheduler) turn() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.waiting) + len(s.ready)
	if n == 0 {
		return nil
	}
	i := 0
	if s.rnd != nil {
		i = s.rnd.IntN(n)
	}
	if i < len(s.waiting) {
		chosen := s.waiting[i]
		s.waiting = slices.Delete(s.waiting, i, i+1)
		return chosen.turn
	}
	i -= len(s.waiting)
	mailbox := s.ready[i]
	s.ready = slices.Delete(s.ready, i, i+1)
	return func() { go mailbox() } // the player waits for its end, by synctest.Wait
}
