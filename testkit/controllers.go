package testkit

import (
	"context"
	"errors"
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
