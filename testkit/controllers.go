package testkit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/actors/scenario"
	"addon-operator/kube"
	"addon-operator/kube/apiserver"
	"addon-operator/messages/view"
)

// helmTimeout is HELM_TIMEOUT in scripts.
const helmTimeout = 5 * time.Minute

// controllers are those of the cluster of a script: the Jobs of Helm hooks succeed when their time is over, and objects
// of releases are as healthy as the script says. They continue whatever happens to the operator.
type controllers struct {
	cluster *scenario.Cluster
	trace   *scenario.Trace
	sched   *scheduler
	stop    context.CancelFunc

	mu     sync.Mutex
	takes  map[string]time.Duration // by hook: the name of the release, or RELEASE-delete
	began  map[string]time.Time     // of those that have not ended
	timers map[string]*time.Timer
	health map[string]string // by object, in the words of kstatus
}

func newControllers(cluster *scenario.Cluster, trace *scenario.Trace, sched *scheduler) (*controllers, error) {
	c := &controllers{cluster: cluster, trace: trace, sched: sched, takes: map[string]time.Duration{}, began: map[string]time.Time{}, timers: map[string]*time.Timer{}, health: map[string]string{}}
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	_, err := cluster.Server.WatchObjects(ctx, kube.Spec{APIVersion: "batch/v1", Kind: "Job"}, c.seen, func() {})
	if err != nil {
		return nil, err
	}
	_, err = cluster.Server.WatchObjects(ctx, kube.Spec{APIVersion: "apps/v1", Kind: "Deployment"}, func(change kube.Change) {
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

// seen is called with the lock of the server held.
func (c *controllers) seen(change kube.Change) {
	hook, ok := strings.CutSuffix(change.Object.Name, "-job")
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch change.Type {
	case kube.Added:
		c.trace.Add("helm runs the hook of %s", hook)
		c.began[hook] = time.Now()
		c.arm(hook)
	case kube.Deleted:
		delete(c.began, hook)
	case kube.Modified:
	}
}

// arm ends a Job when its time is over; the caller holds the lock.
func (c *controllers) arm(hook string) {
	began, runs := c.began[hook]
	if timer := c.timers[hook]; timer != nil {
		timer.Stop()
	}
	if !runs {
		return
	}
	c.timers[hook] = time.AfterFunc(time.Until(began.Add(c.takes[hook])), func() { c.sched.later("job of "+hook, func() { c.finish(hook) }) })
}

// finish lets a Job go on; the server has it succeed at once.
func (c *controllers) finish(hook string) {
	c.mu.Lock()
	_, runs := c.began[hook]
	delete(c.began, hook)
	c.mu.Unlock()
	object := c.cluster.Server.Object("batch/v1", "Job", "default", hook+"-job")
	if !runs || object == nil {
		return
	}
	// They fail only after a mistake in hookJob.
	_ = unstructured.SetNestedField(object, false, "spec", "suspend")
	_ = c.cluster.Apply(object)
}

// assess writes the status by which kstatus judges a Deployment, as the script says: InProgress, Failed or, when it
// says nothing, Current.
func (c *controllers) assess(name string) error {
	c.mu.Lock()
	state := c.health[name]
	c.mu.Unlock()
	object := c.cluster.Server.Object("apps/v1", "Deployment", "default", name)
	if object == nil {
		return nil
	}
	metadata, _ := object["metadata"].(map[string]any)
	status := map[string]any{"observedGeneration": metadata["generation"], "replicas": int64(1), "updatedReplicas": int64(1), "readyReplicas": int64(1), "availableReplicas": int64(1)}
	progress := map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}
	switch state {
	case view.ObjectInProgress, view.ObjectUnknown: // a change, which is to be read
		status["availableReplicas"] = int64(0)
	case view.ObjectFailed:
		progress["status"], progress["reason"] = "False", "ProgressDeadlineExceeded"
	}
	status["conditions"] = []any{progress, map[string]any{"type": "Available", "status": "True"}}
	object["status"] = status
	return c.cluster.Apply(object)
}

// stepHealth says how an object of a release is from now on: RELEASE-b STATE. While it is Unknown, no Deployment may be
// read.
func stepHealth(p *player, rest string) error {
	name, state, _ := strings.Cut(rest, " ")
	known := []string{view.ObjectCurrent, view.ObjectInProgress, view.ObjectFailed, view.ObjectUnknown}
	if !strings.HasSuffix(name, "-b") || !slices.Contains(known, state) {
		return fmt.Errorf("%q is not RELEASE-b with one of %s", rest, known)
	}
	p.Cluster.Server.OnRequest(func(r apiserver.Request) error {
		if state == view.ObjectUnknown && r.Resource == "deployments" && (r.Verb == "get" || r.Verb == "list") {
			return apierrors.NewForbidden(schema.GroupResource{Group: r.Group, Resource: r.Resource}, r.Name, errors.New("no rule allows it"))
		}
		return nil
	})
	p.controllers.mu.Lock()
	p.controllers.health[name] = state
	p.controllers.mu.Unlock()
	return p.controllers.assess(name)
}

// stepHookWaits: the Helm hook of a release, or with RELEASE-delete that of its delete, takes that
// long from now on, also when it is being waited for.
func stepHookWaits(p *player, rest string) error {
	name, text, _ := strings.Cut(rest, " ")
	d, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	p.hookWaits, p.observer.oneByOne = true, false // a module whose Helm hook waits is parked
	p.controllers.mu.Lock()
	defer p.controllers.mu.Unlock()
	p.controllers.takes[name] = d
	p.controllers.arm(name)
	return nil
}
