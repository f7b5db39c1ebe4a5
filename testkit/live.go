package testkit

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/tools/txtar"

	"addon-operator/actors/scenario"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// Live is an operator on virtual time whose charts are real: package helm renders them, and writes
// releases into the API server in memory. The test writes its files, as a person or a delivery
// does, below Dir in modules/ and global-hooks/. Hooks are scripted, and read from disk each time.
// The methods are for the goroutine of the test, and drive the operator: nothing happens between
// them.
type Live struct {
	Dir string

	p *player
}

// PlayLive calls play with such an operator, in a bubble of testing/synctest; it stops at the end.
// What must not be in any script fails the test. Purges are allowed, and modules that fail are
// parked.
func PlayLive(t *testing.T, seed uint64, play func(t *testing.T, l *Live)) {
	t.Helper()
	s := NewStage(t, &txtar.Archive{})
	if err := s.disk.reset(nil); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		p := newPlayer(t, s, seed)
		l := &Live{Dir: s.disk.dir, p: p}
		p.hooks.disk, p.allowPurge, p.isolate = nil, true, true
		defer func() {
			p.end()
			for _, problem := range p.observer.problems {
				t.Error(problem)
			}
		}()
		play(t, l)
	})
}

// Start starts the operator and waits until nothing happens any more. The error may be why it
// refuses.
func (l *Live) Start() error {
	err := l.p.start()
	l.p.settle()
	if err == nil {
		err = l.p.Refused
	}
	return err
}

// NoticeDisk is what the watch of the disk does after the files have changed. Nothing happens any
// more when it returns.
func (l *Live) NoticeDisk() {
	l.p.notices.changed()
	l.p.settle()
}

// Advance lets time pass.
func (l *Live) Advance(d time.Duration) error { return l.p.Advance(l.p.t.Context(), d) }

// Step does a step of a script, such as "configmap-set a {size: 1}". Steps of releases in memory
// have no effect here.
func (l *Live) Step(text string) error {
	verb, rest, _ := strings.Cut(text, " ")
	do := l.p.steps[verb]
	if do == nil {
		return fmt.Errorf("unknown step %q", verb)
	}
	return l.p.step(scenario.Line{Place: "live: " + text, Verb: verb, Rest: rest})
}

// Runs are the binding contexts that hooks ran for since the last call, in order.
func (l *Live) Runs() (runs []string) {
	o := l.p.observer
	o.mu.Lock()
	defer o.mu.Unlock()
	runs, o.latest = o.latest, nil
	return runs
}

// Look is what is there now.
func (l *Live) Look() *Played {
	now := &Played{}
	now.look(l.p)
	return now
}

// Module is the status of a module; nil for one that is unknown.
func (l *Live) Module(name string) (found *view.ModuleStatus) {
	l.p.Visit(func(n *supervisor.Node) {
		if status, ok := n.Status.(view.ModuleStatus); ok && filepath.Base(n.Path) == name {
			found = &status
		}
	})
	return found
}

// Ask asks an actor by its path below the root.
func (l *Live) Ask(path string, question any) (answer any, err error) {
	err = l.p.Await(func() (err error) {
		answer, err = l.p.Operator.Ask(l.p.t.Context(), path, question)
		return err
	})
	return answer, err
}

// Object is an object in the cluster; nil when there is none.
func (l *Live) Object(apiVersion, kind, namespace, name string) map[string]any {
	return l.p.Cluster.Server.Object(apiVersion, kind, namespace, name)
}

// Releases are the names of all releases.
func (l *Live) Releases() []string { return slices.Sorted(maps.Keys(l.p.releases.records())) }

// Trace is what has happened, and the log.
func (l *Live) Trace() string { return strings.ReplaceAll(l.p.traced(), l.Dir, "$DIR") }

// Namespace is that of the operator, and of its releases.
const Namespace = scenario.Namespace
