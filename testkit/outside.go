package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/actors"
	"addon-operator/actors/scenario"
	"addon-operator/helm"
	"addon-operator/kube"

	"addon-operator/messages/view"
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

// CheckObjectPatches implements actors.Objects.
func (o *outside) CheckObjectPatches(ctx context.Context, patches []actors.ObjectPatch) error {
	return o.Cluster.Client.CheckObjectPatches(ctx, patches)
}

// ApplyObjectPatches implements actors.Objects. When it fails, all are left to repeat.
func (o *outside) ApplyObjectPatches(ctx context.Context, patches []actors.ObjectPatch) (left []actors.ObjectPatch, err error) {
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

// EnsureCRDs implements actors.CRDs.
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

// Record implements actors.Notices: the Events that people see are lines of the trace.
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

// Write implements actors.LastValid.
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

// moduleObjects are the objects of kind Module: those of package kube, in the API server in memory, with a trace. They
// outlive the operator.
type moduleObjects struct {
	*kube.ModuleObjects
	*outside
	news *lateNews
}

// Watch implements actors.ModuleObjects. Its news wait for their turn.
func (m *moduleObjects) Watch(ctx context.Context, notify func(kube.ModuleNews)) {
	m.ModuleObjects.Watch(ctx, func(news kube.ModuleNews) {
		m.sched.later("module news", func() { m.news.deliver(func() { notify(news) }) })
	})
}

// Create implements actors.ModuleObjects.
func (m *moduleObjects) Create(ctx context.Context, name string, suspend bool) (kube.ModuleObject, error) {
	r := reference(name)
	there := m.Cluster.Server.Object(r.APIVersion, r.Kind, r.Namespace, r.Name) != nil
	made, err := m.ModuleObjects.Create(ctx, name, suspend)
	if err == nil && !there {
		m.Trace.Add("object %s: created", name)
	}
	return made, err
}

// Apply implements actors.ModuleObjects.
func (m *moduleObjects) Apply(ctx context.Context, name string, status kube.ModuleStatus) (kube.ModuleObject, error) {
	if err := m.act(ctx, faultOfModules, "", ""); err != nil {
		return kube.ModuleObject{}, err
	}
	written, err := m.ModuleObjects.Apply(ctx, name, status)
	if err == nil {
		m.Trace.Add("object %s: %s", name, shown(status))
	}
	return written, err
}

// Delete implements actors.ModuleObjects.
func (m *moduleObjects) Delete(ctx context.Context, read kube.ModuleObject) error {
	err := m.ModuleObjects.Delete(ctx, read)
	if err == nil {
		m.Trace.Add("object %s: deleted", read.Name)
	}
	return err
}

// shown is what a trace shows of a status: the phase, the conditions that hold, and of Ready also
// why it does not.
func shown(s kube.ModuleStatus) string {
	text := s.Phase
	for _, c := range s.Conditions {
		if c.Type == "Ready" || c.Status == "True" {
			text += fmt.Sprintf(", %s %s", c.Type, c.Status)
		}
		if c.Type == "Ready" {
			text += fmt.Sprintf(" %s: %s", c.Reason, c.Message)
		}
	}
	if handled := strings.Trim(s.LastHandledRequestedAt+" "+s.LastHandledRetryRequestedAt, " "); handled != "" {
		text += ", handled " + handled
	}
	return text
}

// reference names an object.
func reference(name string) scenario.Reference {
	return scenario.ParseReference("Module " + scenario.Namespace + "/" + name)
}

// annotateModule annotates an object as a person does: NAME TEXT. One that does not exist is created, and belongs to the
// person: it is not marked as the operator's.
func annotateModule(annotation string) step {
	return func(p *player, rest string) error {
		name, text, _ := strings.Cut(rest, " ")
		return p.Cluster.Set(reference(name), text, "metadata", "annotations", annotation)
	}
}

// suspendModule does the same with spec.suspend: NAME [false].
func suspendModule(p *player, rest string) error {
	name, text, _ := strings.Cut(rest, " ")
	return p.Cluster.Set(reference(name), text != "false", "spec", "suspend")
}

// helmTimeout is HELM_TIMEOUT in scripts.
const helmTimeout = 5 * time.Minute

// controllers are those of the cluster of a script: the Jobs of Helm hooks succeed when their time is over, and
// Deployments of releases are as healthy as the script says. They continue whatever happens to the operator.
type controllers struct {
	*outside
	stop   context.CancelFunc
	health sync.Map // by Deployment, in the words of kstatus
}

func newControllers(o *outside) (*controllers, error) {
	ctx, stop := context.WithCancel(context.Background())
	c := &controllers{outside: o, stop: stop}
	watch := func(apiVersion, kind string, created func(kube.Change)) error {
		_, err := o.Cluster.Server.WatchObjects(ctx, kube.Spec{APIVersion: apiVersion, Kind: kind}, func(change kube.Change) {
			if change.Type == kube.Added {
				created(change)
			}
		}, func() {})
		return err
	}
	return c, errors.Join(watch("batch/v1", "Job", c.job), watch("apps/v1", "Deployment", func(change kube.Change) {
		c.sched.later("health of "+change.Object.Name, func() { _ = c.assess(change.Object.Name) })
	}))
}

// job is called with the lock of the server held. When its time is over, the Job that was created goes on, and the
// server has it succeed at once.
func (c *controllers) job(created kube.Change) {
	name := strings.TrimSuffix(created.Object.Name, "-job")
	c.Trace.Add("helm runs the hook of %s", name)
	finish := func() {
		job := &unstructured.Unstructured{Object: c.Cluster.Server.Object("batch/v1", "Job", "default", created.Object.Name)}
		if job.Object != nil && job.GetResourceVersion() == created.Version {
			// They fail only after a mistake in testdata/usual.yaml.
			_ = unstructured.SetNestedField(job.Object, false, "spec", "suspend")
			_ = c.Cluster.Server.Apply(job.Object)
		}
	}
	time.AfterFunc(c.Faults.Lasts(faultOfJobs+name), func() { c.sched.later("job "+name, finish) })
}

// assess writes the status by which kstatus judges a Deployment, as the script says: InProgress, Failed or, when it
// says nothing, Current.
func (c *controllers) assess(name string) error {
	state, _ := c.health.Load(name)
	object := c.Cluster.Server.Object("apps/v1", "Deployment", "default", name)
	if object == nil {
		return nil
	}
	metadata, _ := object["metadata"].(map[string]any)
	status := map[string]any{"observedGeneration": metadata["generation"], "replicas": int64(1), "updatedReplicas": int64(1), "readyReplicas": int64(1), "availableReplicas": int64(1)}
	progress := map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}
	switch state {
	case view.ObjectInProgress:
		status["availableReplicas"] = int64(0)
	case view.ObjectFailed:
		progress["status"], progress["reason"] = "False", "ProgressDeadlineExceeded"
	}
	status["conditions"] = []any{progress, map[string]any{"type": "Available", "status": "True"}}
	object["status"] = status
	return c.Cluster.Server.Apply(object)
}

// stepHealth says how the Deployment of a release is from now on: RELEASE-b STATE.
func stepHealth(p *player, rest string) error {
	name, state, _ := strings.Cut(rest, " ")
	p.controllers.health.Store(name, state)
	return p.controllers.assess(name)
}
