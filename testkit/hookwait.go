package testkit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"addon-operator/actors/scenario"
	"addon-operator/helm"
)

// hookTimeout is HELM_TIMEOUT in scripts.
const hookTimeout = 5 * time.Minute

// hookJob is the Job of a Helm hook. It goes on whatever happens to the operator.
type hookJob struct {
	checksum string // of what it is for
	began    time.Time
}

// stepHookWaits: the Helm hook of a release takes that long from now on.
func stepHookWaits(p *player, rest string) error {
	name, text, _ := strings.Cut(rest, " ")
	d, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	p.hookWaits, p.witness.oneByOne = true, false
	p.releases.mu.Lock()
	defer p.releases.mu.Unlock()
	p.releases.hooks[name] = d
	return nil
}

// awaitHook runs the Helm hook of a release: for another manifest a new one, for the same one that which is there.
func (r *Releases) awaitHook(ctx context.Context, name, checksum string, waits helm.HookWaits) error {
	r.mu.Lock()
	d, ok := r.hooks[name]
	job := r.jobs[name]
	if ok && (job == nil || job.checksum != checksum) {
		job = &hookJob{checksum, time.Now()}
		r.jobs[name] = job
		r.trace.Add("helm runs the hook of %s", name)
	} else if ok {
		r.trace.Add("helm goes on waiting for the hook of %s", name)
	}
	r.mu.Unlock()
	left := d - time.Since(job.age())
	if !ok || left <= 0 {
		return nil
	}
	if waits.Report != nil {
		waits.Report(&helm.HookWait{Object: "Job default/" + name + "-job", Pod: name + "-job-x", State: "Unschedulable", Since: job.began, Until: time.Now().Add(hookTimeout)})
	}
	err := error(nil)
	select {
	case <-time.After(min(left, hookTimeout)):
		if left > hookTimeout {
			err = fmt.Errorf("the hook did not finish within %s", hookTimeout)
		}
	case <-waits.Until:
		err = errors.New("the wait was interrupted")
	case <-ctx.Done():
		return ctx.Err()
	}
	r.sched.await("helm " + name)
	if r.faults.Died() {
		return scenario.ErrDead
	}
	if waits.Report != nil {
		waits.Report(nil)
	}
	if err != nil {
		r.trace.Add("helm leaves the hook of %s: %v", name, err)
		return &helm.Error{Kind: helm.Waiting, Release: name, Err: err}
	}
	return nil
}

// age is when a Job began; the zero time for none.
func (j *hookJob) age() time.Time {
	if j == nil {
		return time.Time{}
	}
	return j.began
}
