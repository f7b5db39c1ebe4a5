package testkit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"addon-operator/actors/scenario"
	"addon-operator/helm"
)

// hookTimeout is HELM_TIMEOUT in scripts.
const hookTimeout = 5 * time.Minute

// hookJob is the Job of a Helm hook. It continues whatever happens to the operator, as a Job in a
// cluster does: what the operator finds later depends on when it began.
type hookJob struct {
	checksum string // of the manifest that it runs for, or the revision that is deleted
	began    time.Time
	jitter   time.Duration
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
	p.releases.mu.Lock()
	defer p.releases.mu.Unlock()
	p.releases.hooks[name] = d
	close(p.releases.hooksChanged)
	p.releases.hooksChanged = make(chan struct{})
	return nil
}

// awaitHook runs the Helm hook of a release, if a script has given it one: for another manifest a
// new Job, for the same manifest the one that is there. hook is the name of the release, or
// RELEASE-delete. It returns a [helm.Waiting] error when the wait has ended before the Job; the
// operator retries later, and waits for the same Job.
func (r *Releases) awaitHook(ctx context.Context, name, hook, checksum string, waits helm.HookWaits) error {
	r.mu.Lock()
	_, ok := r.hooks[hook]
	job := r.jobs[hook]
	if ok && (job == nil || job.checksum != checksum) {
		job = &hookJob{checksum, time.Now(), r.jitter.next("hook " + hook)}
		r.jobs[hook] = job
		r.trace.Add("helm runs the hook of %s", hook)
	} else if ok {
		r.trace.Add("helm continues to wait for the hook of %s", hook)
	}
	left, changed := r.left(hook)
	r.mu.Unlock()
	if left <= 0 {
		return nil
	}
	until := time.Now().Add(hookTimeout)
	if waits.Report != nil {
		waits.Report(&helm.HookWait{Object: "Job default/" + hook + "-job", Pod: hook + "-job-x", State: "Unschedulable", Since: job.began, Until: until})
	}
	err := error(nil)
	for left > 0 && err == nil {
		select {
		case <-time.After(left):
		case <-time.After(time.Until(until)):
			err = fmt.Errorf("the hook did not finish within %s", hookTimeout)
		case <-changed:
		case <-waits.Until:
			err = errors.New("the wait was interrupted")
		case <-ctx.Done():
			return ctx.Err()
		}
		r.mu.Lock()
		left, changed = r.left(hook)
		r.mu.Unlock()
	}
	r.sched.await("helm " + name)
	if r.faults.Died() {
		return scenario.ErrDead
	}
	if waits.Report != nil {
		waits.Report(nil)
	}
	if err != nil {
		r.trace.Add("helm leaves the hook of %s: %v", hook, err)
		return &helm.Error{Kind: helm.Waiting, Release: name, Err: err}
	}
	return nil
}

// left is how long a hook still takes, and what is closed when that changes. The caller holds the
// lock.
func (r *Releases) left(hook string) (time.Duration, <-chan struct{}) {
	d, ok := r.hooks[hook]
	if job := r.jobs[hook]; ok && job != nil {
		return d + job.jitter - time.Since(job.began), r.hooksChanged
	}
	return 0, r.hooksChanged
}

// waits are the Helm hooks of a random script that take their time. It is a part of a third of the
// scripts.
//
// A Job that never ends must not block other modules without end: in the end it has ended, or its
// module is disabled, and then all must be as the model says.
type waits struct {
	*draw
	begun bool
	stuck string // the hooks of this module never end; "": of none
}

// begin draws from a source of its own, for the same reason as order.begin.
func (w *waits) begin(seed uint64) {
	w.begun = rand.New(rand.NewPCG(seed, 2)).IntN(3) == 0
}

// steps are those that Helm hooks add to those that are drawn.
func (w *waits) steps() []func() {
	if !w.begun {
		return nil
	}
	return []func(){w.hooks, w.hooks, w.hooks, w.deletes, w.neverEnds}
}

func (w *waits) hooks() {
	w.add("hook-waits %s %s", oneOf(w.draw, withCharts()...), oneOf(w.draw, 0, 3*time.Second, 40*time.Second, 7*time.Minute))
}

func (w *waits) deletes() {
	w.add("hook-waits %s-delete %s", oneOf(w.draw, withCharts()...), oneOf(w.draw, 0, 3*time.Second, 40*time.Second, 7*time.Minute))
}

// neverEnds lets the hooks of a module wait until it is disabled.
func (w *waits) neverEnds() {
	if w.stuck == "" && !w.steady {
		w.stuck = oneOf(w.draw, withCharts()...)
		w.add("hook-waits %s 1000h", w.stuck)
	}
}

// end lets all hooks end, except those of the module that is disabled for them.
func (w *waits) end() {
	if !w.begun {
		return
	}
	for _, name := range withCharts() {
		w.add("hook-waits %s-delete 0s", name)
		if name != w.stuck {
			w.add("hook-waits %s 0s", name)
		}
	}
	if w.stuck != "" {
		w.set(w.stuck+"Enabled", "false")
	}
}

// withCharts are the modules of random scripts that have a release.
func withCharts() []string { return strings.Fields("a b c e f g h i j") }
