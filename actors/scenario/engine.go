package scenario

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"addon-operator/actors"
	"addon-operator/actors/shared"
	"addon-operator/supervisor"
)

// Driver is the part of a play that differs between the two kinds of scripts: package scenario has real hooks,
// charts and Helm, and a clock of its own; package testkit has scripted hooks and releases in memory, on virtual time.
// The engine calls it in the goroutine of the play only.
type Driver interface {
	// World returns the dependencies of an operator that is about to start, except for those that the Engine has.
	World() (shared.World, error)
	// Await calls f while the play continues, and returns the result of f.
	Await(f func() error) error
	// Settle returns when the operator does nothing until a step or time changes something.
	Settle(ctx context.Context) error
	// Advance lets time pass.
	Advance(ctx context.Context, d time.Duration) error
}

// Engine plays the steps of a script with its driver. Its fields belong to the goroutine of the play.
// Operator may become nil while Await or Settle drive the play: in testkit an operator can be killed.
type Engine struct {
	Driver   Driver
	Cluster  *Cluster
	Faults   *Faults
	Trace    *Trace
	Operator *actors.Operator // nil while none runs
	Refused  error            // why the latest start was refused

	Lifetime context.Context    // of the operator that was started last, and of what it writes
	End      context.CancelFunc // ends it
}

// NewEngine makes an engine with an empty cluster. The caller sets its driver.
func NewEngine(cluster *Cluster, trace *Trace) *Engine {
	e := &Engine{Cluster: cluster, Faults: NewFaults(), Trace: trace}
	cluster.Faults = e.Faults
	return e
}

// errNotRunning is what steps return that need the operator.
var errNotRunning = errors.New("the operator does not run, because its start was refused")

// Start makes an operator in the world of the driver, and calls begin, which starts it, with the
// lifetime of the operator. If it refuses to start, the reason is in Refused and Start returns no error: a script
// may expect it. Fields that the world leaves empty are set from the cluster, so a driver may replace them.
func (e *Engine) Start(begin func(*actors.Operator, context.Context) error) error {
	if e.Operator != nil {
		return errors.New("the operator is already running")
	}
	world, err := e.Driver.World()
	if err != nil {
		return err
	}
	world.ConfigMap = e.Cluster.ConfigMap
	if world.Secret == nil {
		world.Secret = e.Cluster.Secret
	}
	if world.Objects == nil {
		world.Objects = e.Cluster
	}
	world.Watch = e.Cluster.WatchObjects
	e.Lifetime, e.End = context.WithCancel(context.Background())
	world.WriteContext = e.Lifetime
	operator := actors.New(world)
	e.Operator, e.Refused = operator, nil // before begin, so that Visit shows an operator that starts
	err = e.Driver.Await(func() error { return begin(operator, e.Lifetime) })
	if err != nil && e.Operator == operator { // it was not killed meanwhile
		e.Operator, e.Refused = nil, err
		e.End()
	}
	return nil
}

// Stop stops the operator, if it runs. Its lifetime ends after the stop: until then it may write.
func (e *Engine) Stop(ctx context.Context) error {
	if e.Operator == nil {
		return nil
	}
	operator := e.Operator
	err := e.Driver.Await(func() error { return operator.Stop(ctx) })
	e.Operator = nil
	e.End()
	return err
}

// Visit calls see with each actor and the status that it has published, parents first; with none
// while no operator runs.
func (e *Engine) Visit(see func(*supervisor.Node)) {
	if e.Operator == nil {
		return
	}
	var visit func([]*supervisor.Node)
	visit = func(nodes []*supervisor.Node) {
		for _, n := range nodes {
			see(n)
			visit(n.Children)
		}
	}
	visit(e.Operator.Inspector().Tree())
}

// Line is a step of a script, however that is written: a line of words in testkit, a map of YAML in
// scenarios.
type Line struct {
	Place string // where it is, for errors
	Verb  string
	Rest  string // the other words
	Data  any    // the argument of a step that has more than words, such as an object; else nil
}

// NameAndNumber reads the words as NAME N. The name may be missing.
func (l Line) NameAndNumber() (string, int, error) {
	name, text := l.last()
	n, err := strconv.Atoi(text)
	return name, n, err
}

// NameAndDuration reads the words as NAME DURATION. The name may be missing.
func (l Line) NameAndDuration() (string, time.Duration, error) {
	name, text := l.last()
	d, err := time.ParseDuration(text)
	return name, d, err
}

// last splits the words at the last space. So the name before it may have spaces, as "hook.sh
// --config" has.
func (l Line) last() (before, last string) {
	space := strings.LastIndex(l.Rest, " ")
	return l.Rest[:max(space, 0)], l.Rest[space+1:]
}

// Step does what a line says.
type Step func(ctx context.Context, e *Engine, line Line) error

// Steps are what all scripts can do, by verb.
func Steps() map[string]Step {
	return map[string]Step{
		"advance":      advance,
		"delete":       remove,
		"fail":         Failing(FaultOfHook, ""),
		"fail-config":  Failing(FaultOfHook, AskConfig),
		"fail-helm":    Failing(FaultOfHelm, ""),
		"fail-objects": Failing(FaultOfObjects, ""),
		"slow":         slowing(FaultOfHook, ""),
		"slow-config":  slowing(FaultOfHook, AskConfig),
		"slow-helm":    slowing(FaultOfHelm, ""),
		"slow-objects": slowing(FaultOfObjects, ""),
	}
}

// Failing makes the next actions of a kind fail: VERB NAME N.
func Failing(kind, end string) Step {
	return func(_ context.Context, e *Engine, line Line) error {
		name, n, err := line.NameAndNumber()
		e.Faults.Fail(kind+name+end, n)
		return err
	}
}

// slowing lets the actions of a kind take long: VERB NAME DURATION.
func slowing(kind, end string) Step {
	return func(_ context.Context, e *Engine, line Line) error {
		name, d, err := line.NameAndDuration()
		e.Faults.Slow(kind+name+end, d)
		return err
	}
}

func advance(ctx context.Context, e *Engine, line Line) error {
	d, err := time.ParseDuration(line.Rest)
	if err != nil || d <= 0 {
		return fmt.Errorf("advance: %q is not a duration such as 90s or 1h30m", line.Rest)
	}
	return e.Driver.Advance(ctx, d)
}

func remove(_ context.Context, e *Engine, line Line) error {
	r, ok := line.Data.(Reference)
	if !ok {
		r = ParseReference(line.Rest)
	}
	found, err := e.Cluster.Delete(r)
	if err == nil && !found {
		err = fmt.Errorf("delete: there is no %s", r)
	}
	return err
}

// Play does the steps one after the other, and waits after each until nothing happens any more. The
// first error ends the play; it names the step.
func (e *Engine) Play(ctx context.Context, lines []Line, step func(Line) error) error {
	for _, line := range lines {
		err := step(line)
		if err == nil {
			err = e.Driver.Settle(ctx)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", line.Place, err)
		}
	}
	return nil
}
