package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"addon-operator/actors"
	"addon-operator/actors/scenario"

	"addon-operator/helm"
	"addon-operator/kube"
	"addon-operator/kube/objectpatch"
)

// outside is what the actors of a script call in place of hooks, Helm, definitions and objects: each action leaves
// lines in the trace, takes its time, and fails, as the script says.
type outside struct {
	*scenario.Engine
	sched    *scheduler // nil: each goroutine goes on when it wakes
	observer *observer
}

// The kinds of actions that only scripts of testkit disturb, and the ways to fail that only they have: a panic, and an
// API whose server does not answer.
const (
	faultOfCRDs    = "crds "
	faultOfJobs    = "job "     // of Helm hooks
	faultOfObjects = "objects " // all object patches; there is no name
	faultOfModules = "modules "
	panics         = "panic "
	away           = "away "
)

// errDead ends the actions of an operator that was killed.
var errDead = errors.New("the operator is dead")

var errScripted = errors.New("the script makes it fail")

// act begins an action with a line of the trace, lets it take its time, and returns the error with which it fails, if
// it must: it has changed nothing by then. The action of a dead operator ends here.
func (o *outside) act(ctx context.Context, kind, name, line string) error {
	o.sched.await(kind + name) // other goroutines may begin, or wake, at the same instant
	if line != "" {
		o.Trace.AddLine(line)
	}
	if d := o.Faults.Lasts(kind + name); d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		o.sched.await(kind + name)
	}
	switch {
	case o.Trace.Dead.Load():
		return errDead
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case o.Faults.Take(panics+kind+name, 1) > 0:
		panic("the script makes it panic")
	case o.Faults.Take(away+kind+name, 1) > 0:
		return &helm.Error{Kind: helm.Away, Release: name, Err: errors.New("APIService v1.things is not available")}
	case o.Faults.Take(kind+name, 1) > 0:
		return errScripted
	}
	return nil
}

// askConfig ends the name of the call of a hook for its configuration, so that it fails and lasts independently of the
// hook's runs.
const askConfig = " --config"

// CheckObjectPatches implements work.Objects.
func (o *outside) CheckObjectPatches(ctx context.Context, patches []objectpatch.Patch) error {
	return o.Cluster.Client.CheckObjectPatches(ctx, patches)
}

// ApplyObjectPatches implements work.Objects. When it fails, all are left to repeat.
func (o *outside) ApplyObjectPatches(ctx context.Context, patches []objectpatch.Patch) (left []objectpatch.Patch, err error) {
	if err := o.act(ctx, faultOfObjects, "", ""); err != nil {
		return patches, err
	}
	left, err = o.Cluster.Client.ApplyObjectPatches(ctx, patches)
	o.sched.await("patches " + fmt.Sprint(patches))
	return left, err
}

// crds are the definitions of modules.
type crds struct {
	actors.CRDs
	*outside
}

// EnsureCRDs implements work.CRDs.
func (c crds) EnsureCRDs(ctx context.Context, modules []helm.Module) (written map[string]string, err error) {
	for _, m := range modules {
		if _, absent := os.Stat(filepath.Join(m.Dir, "crds")); absent == nil {
			c.Trace.Add("CRDs of %s", filepath.Base(m.Dir))
			err = errors.Join(err, c.act(ctx, faultOfCRDs, "", ""))
		}
	}
	if err != nil {
		return nil, err
	}
	return c.CRDs.EnsureCRDs(ctx, modules)
}

// Record implements shared.Notices: the Events that people see are lines of the trace.
func (o *outside) Record(n kube.Notice) {
	where := "event"
	if n.OnConfigMap {
		where = "event on the ConfigMap"
	}
	o.Trace.Add("%s: %s: %s", where, n.Reason, firstLine(n.Message))
}

// lastValid keeps the last valid content of the ConfigMap in a Secret of the cluster, and notes in the trace when it
// changes.
type lastValid struct {
	kube.LastValidStore
	trace *scenario.Trace
	said  string
}

// Write implements shared.LastValid.
func (v *lastValid) Write(ctx context.Context, kept kube.LastValid) error {
	err := v.LastValidStore.Write(ctx, kept)
	line := fmt.Sprintf("last valid values: operator keeps %q and of the Secret %q", kept.Config, kept.Secret)
	if err == nil && line != v.said {
		v.said = line
		v.trace.AddLine(line)
	}
	return err
}

// lateNews delivers the events of watches, or keeps them while news are late: then the
// cluster has changed and lists show it, but no watch was notified. So is a real watch whose
// connection is slow.
type lateNews struct {
	mu      sync.Mutex // never held while an event is delivered: its receiver may write to the cluster
	holding bool
	held    []func() // in the order of their changes
}

// deliver is the Deliver of scenario.Cluster.
func (l *lateNews) deliver(event func()) {
	l.mu.Lock()
	holding := l.holding
	if holding {
		l.held = append(l.held, event)
	}
	l.mu.Unlock()
	if !holding {
		event()
	}
}

// hold keeps all events from now on, or delivers what was kept, in order, and keeps nothing any more.
func (l *lateNews) hold(holding bool) {
	l.mu.Lock()
	held := l.held
	l.holding, l.held = holding, nil
	l.mu.Unlock()
	for _, event := range held {
		event()
	}
}
