package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/tools/txtar"

	"addon-operator/actors"
	"addon-operator/addons"
	"addon-operator/hooks"
)

// Play plays the steps of a lifecycle script on virtual time and returns what happened.
// Seed 0 keeps the order in which messages arrive, or the one that the script asks for;
// any other draws it.
func Play(t *testing.T, archive *txtar.Archive, seed uint64) *Played {
	t.Helper()
	return newStage(archive).play(t, seed)
}

// stage is where a script is played, also more than once: its files are written once
// when no step changes them, and its scripted hooks are parsed once.
type stage struct {
	archive *txtar.Archive
	files   map[string][]byte
	dir     string // with the files of the last play; "" before it
	mutable bool   // a step changes files
	runner  *hooks.Runner
	scripts scriptCache
}

func newStage(archive *txtar.Archive) *stage {
	s := &stage{archive: archive, files: map[string][]byte{}, scripts: newScriptCache()}
	for _, f := range archive.Files {
		s.files[f.Name] = f.Data
	}
	for line := range strings.Lines(string(s.files["script"])) {
		verb, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		s.mutable = s.mutable || verb == "write" || verb == "remove" || verb == "restore"
	}
	return s
}

func (s *stage) play(t *testing.T, seed uint64) *Played {
	t.Helper()
	fresh := s.dir == "" || s.mutable
	if fresh {
		s.dir, s.runner = t.TempDir(), nil
	}
	played := &Played{}
	synctest.Test(t, func(t *testing.T) {
		p := newPlayer(t, s, seed)
		defer func() {
			p.end()
			played.Problems = append(played.Problems, p.witness.problems...)
		}()
		if fresh {
			p.extract()
		}
		p.play()
		played.look(p)
		played.Trace = strings.ReplaceAll(p.trace.String(), s.dir, "$DIR")
	})
	return played
}

// player plays one script.
type player struct {
	t        *testing.T
	dir      string
	files    map[string][]byte
	trace    *Trace
	sched    *Scheduler
	cluster  *Cluster
	releases *Releases
	hooks    *Hooks
	operator *actors.Operator
	writes   context.CancelFunc
	witness  *witness
	isolate  bool
	width    int
	traps    *traps

	drift       string
	driftPeriod time.Duration
}

func newPlayer(t *testing.T, s *stage, seed uint64) *player {
	trace := NewTrace()
	p := &player{
		t: t, dir: s.dir, files: s.files, trace: trace, sched: NewScheduler(seed), witness: newWitness(),
		cluster: NewCluster(trace), releases: NewReleases(trace),
	}
	p.traps = newTraps(p.witness)
	if s.runner == nil || hasPrograms(s.archive) { // it logs into the trace of one play
		runner, err := hooks.NewRunner(hooks.Options{TmpDir: filepath.Join(s.dir, "tmp"), Log: trace.logger()})
		if err != nil {
			t.Fatal(err)
		}
		s.runner = runner
	}
	p.hooks = NewHooks(s.runner, trace)
	p.hooks.scripts = s.scripts
	p.hooks.witness, p.releases.witness = p.witness, p.witness
	return p
}

// extract writes the modules and hooks of the archive.
func (p *player) extract() {
	for _, d := range []string{"modules", "global-hooks"} {
		if err := os.MkdirAll(filepath.Join(p.dir, d), 0o755); err != nil {
			p.t.Fatal(err)
		}
	}
	for name, data := range p.files {
		if strings.HasPrefix(name, "modules/") || strings.HasPrefix(name, "global-hooks/") {
			p.write(name, data)
		}
	}
}

// write puts a file on disk; hooks and enabled scripts become executable.
func (p *player) write(name string, data []byte) {
	path := filepath.Join(p.dir, filepath.FromSlash(name))
	mode := os.FileMode(0o644)
	openapi := strings.Contains(name, "/openapi/")
	if !openapi && (strings.Contains(name, "hooks/") || filepath.Base(name) == "enabled") {
		mode = 0o755
	}
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, data, mode)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *player) play() {
	for number, line := range strings.Split(string(p.files["script"]), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		p.trace.Heading(line)
		verb, rest, _ := strings.Cut(line, " ")
		step, ok := steps()[verb]
		if !ok {
			p.t.Fatalf("script line %d: unknown step %q", number+1, verb)
		}
		if err := step(p, strings.TrimSpace(rest)); err != nil {
			p.t.Fatalf("script line %d: %s: %v", number+1, line, err)
		}
		p.settle()
	}
}

// busyLoop is more turns than any step needs at one instant.
const busyLoop = 100_000

// settle takes turns until nothing happens any more at this instant.
func (p *player) settle() {
	for range busyLoop {
		synctest.Wait()
		if !p.sched.Turn() {
			return
		}
	}
	p.t.Fatalf("the actors are busy for ever at one instant; the trace so far:\n%s", p.trace)
}

// advance lets virtual time pass; what becomes due is done at its time.
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
	return p.startBy(func(o *actors.Operator) error { return o.Start(context.Background()) })
}

func (p *player) standBy() error {
	return p.startBy(func(o *actors.Operator) error { return o.StandBy(context.Background()) })
}

func (p *player) startBy(start func(*actors.Operator) error) error {
	if p.operator != nil {
		return errors.New("it is running")
	}
	p.witness.oneByOne = !p.isolate && p.width <= 1
	writes, cancel := context.WithCancel(context.Background())
	p.writes = cancel
	p.operator = actors.New(actors.World{
		Log: p.trace.logger(), Hooks: p.hooks, Releases: p.releases, ReleaseWatch: p.releases, Previews: p.releases, ConfigMap: p.cluster, Objects: p.cluster, Notices: p.cluster,
		Watch:   p.cluster.WatchObjects,
		Isolate: p.isolate, Width: p.width, Drift: p.drift, DriftPeriod: p.driftPeriod, Writes: writes, Dispatcher: p.sched, Observe: p.traps.observe, IgnoredRelease: "operator-itself",
		Dirs: addons.Dirs{Modules: []string{filepath.Join(p.dir, "modules")}, Global: filepath.Join(p.dir, "global-hooks"), UnnumberedOrder: 1},
	})
	if err := p.await(func() error { return start(p.operator) }); err != nil {
		p.trace.Add("start refused: %s", strings.ReplaceAll(err.Error(), "\n", "\n          "))
		p.operator = nil
	}
	return nil
}

func (p *player) stop() error {
	if p.operator == nil {
		return nil
	}
	p.traps.clear()
	err := p.await(func() error { return p.operator.Stop(context.Background()) })
	if n := len(p.operator.Inspector().Tree()); n > 0 && err == nil {
		err = fmt.Errorf("%d actors are left", n)
	}
	p.operator = nil
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
}
