package scenario

import (
	"context"
	"errors"

	"addon-operator/actors"

	"addon-operator/supervisor"
)

// Engine runs the operator of a play in a cluster in memory, for both kinds of scripts: package scenario has real
// hooks and a clock of its own, package testkit scripted hooks and virtual time. Its fields belong to the goroutine of
// the play. Operator may become nil while Await drives the play: in testkit an operator can be killed.
type Engine struct {
	Cluster  *Cluster
	Faults   *Faults
	Trace    *Trace
	Operator *actors.Operator // nil while none runs
	Refused  error            // why the latest start was refused

	// World returns the dependencies of an operator that is about to start, except for those that the Engine has.
	World func() (actors.World, error)
	// Await calls f while the play continues, and returns the result of f.
	Await func(f func() error) error

	End context.CancelFunc // ends the lifetime of the operator that was started last, and what it writes
}

// NewEngine makes an engine with a cluster. The caller sets World, and Await if calls have to be driven.
func NewEngine(cluster *Cluster, trace *Trace) *Engine {
	return &Engine{Cluster: cluster, Faults: NewFaults(), Trace: trace, Await: func(f func() error) error { return f() }}
}

// errNotRunning is what steps return that need the operator.
var errNotRunning = errors.New("the operator does not run, because its start was refused")

// Start makes an operator in its world, and calls begin, which starts it, with the
// lifetime of the operator. If it refuses to start, the reason is in Refused and Start returns no error: a script
// may expect it. Fields that the world leaves empty are set from the cluster.
func (e *Engine) Start(begin func(*actors.Operator, context.Context) error) error {
	if e.Operator != nil {
		return errors.New("the operator is already running")
	}
	world, err := e.World()
	if err != nil {
		return err
	}
	world.ConfigMap, world.Secret, world.Watch = e.Cluster.ConfigMap, e.Cluster.Secret, e.Cluster.WatchObjects
	if world.Objects == nil {
		world.Objects = e.Cluster.Client
	}
	lifetime, end := context.WithCancel(context.Background())
	world.WriteContext, e.End = lifetime, end
	operator := actors.New(world)
	e.Operator, e.Refused = operator, nil // before begin, so that Visit shows an operator that starts
	err = e.Await(func() error { return begin(operator, lifetime) })
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
	err := e.Await(func() error { return operator.Stop(ctx) })
	e.Operator = nil
	e.End()
	return err
}

// Visit calls see with each actor and the status that it has published, parents first; with none
// while no operator runs.
func (e *Engine) Visit(see func(*supervisor.Node)) {
	if e.Operator != nil {
		supervisor.Walk(e.Operator.Inspector().Tree(), see)
	}
}
