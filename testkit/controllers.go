package testkit

import (
	"context"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/kube"
	"addon-operator/messages/view"
)

// helmTimeout is HELM_TIMEOUT in scripts.
const helmTimeout = 5 * time.Minute

// controllers are those of the cluster of a script: the Jobs of Helm hooks succeed when their time is over, and
// Deployments of releases are as healthy as the script says. They continue whatever happens to the operator.
type controllers struct {
	*outside
	stop context.CancelFunc

	mu     sync.Mutex
	takes  map[string]time.Duration // by Job; the others end at once
	timers map[string]*time.Timer   // of Jobs that are there
	health map[string]string        // by Deployment, in the words of kstatus
}

func newControllers(o *outside) (*controllers, error) {
	c := &controllers{
		outside: o, takes: map[string]time.Duration{}, timers: map[string]*time.Timer{}, health: map[string]string{},
	}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	_, err := o.Cluster.Server.WatchObjects(ctx, kube.Spec{APIVersion: "batch/v1", Kind: "Job"}, c.job, func() {})
	if err != nil {
		return nil, err
	}
	deployments := kube.Spec{APIVersion: "apps/v1", Kind: "Deployment"}
	_, err = o.Cluster.Server.WatchObjects(ctx, deployments, func(change kube.Change) {
		if change.Type == kube.Added {
			c.sched.later("health of "+change.Object.Name, func() { _ = c.assess(change.Object.Name) })
		}
	}, func() {})
	return c, err
}

// end leaves no goroutine behind.
func (c *controllers) end() {
	c.stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, timer := range c.timers {
		timer.Stop()
	}
}

// job is called with the lock of the server held.
func (c *controllers) job(change kube.Change) {
	name := change.Object.Name
	c.mu.Lock()
	defer c.mu.Unlock()
	switch change.Type {
	case kube.Added:
		c.Trace.Add("helm runs the hook of %s", strings.TrimSuffix(name, "-job"))
		c.timers[name] = time.AfterFunc(c.takes[name], func() { c.sched.later("job "+name, func() { c.finish(name) }) })
	case kube.Deleted:
		c.timers[name].Stop()
		delete(c.timers, name)
	case kube.Modified:
	}
}

// finish lets a Job go on; the server has it succeed at once.
func (c *controllers) finish(name string) {
	if object := c.Cluster.Server.Object("batch/v1", "Job", "default", name); object != nil {
		// They fail only after a mistake in testdata/usual.yaml.
		_ = unstructured.SetNestedField(object, false, "spec", "suspend")
		_ = c.Cluster.Server.Apply(object)
	}
}

// assess writes the status by which kstatus judges a Deployment, as the script says: InProgress, Failed or, when it
// says nothing, Current.
func (c *controllers) assess(name string) error {
	c.mu.Lock()
	state := c.health[name]
	c.mu.Unlock()
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
	p.controllers.mu.Lock()
	p.controllers.health[name] = state
	p.controllers.mu.Unlock()
	return p.controllers.assess(name)
}

// stepHookWaits: the Helm hook of a release takes that long from now on, also when it is being waited for.
func stepHookWaits(p *player, rest string) error {
	name, d, err := nameAnd(time.ParseDuration, rest)
	p.hookWaits, p.observer.oneByOne = true, false // a module whose Helm hook waits is parked
	name += "-job"
	p.controllers.mu.Lock()
	defer p.controllers.mu.Unlock()
	p.controllers.takes[name] = d
	if timer := p.controllers.timers[name]; timer != nil {
		timer.Reset(d)
	}
	return err
}
