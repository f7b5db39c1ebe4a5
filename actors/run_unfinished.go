package actors

import (
	"fmt"

	"addon-operator/hooks"
	"addon-operator/kube/objectpatch"
	"addon-operator/messages"
)

// step is one run of a hook in a task: the hook, and what it runs for.
type step struct{ hook, reason string }

// effects are the part of a hook's result that follows its commit (D26): object patches, which the
// API server may refuse, then metrics. What is committed must not be committed again, so an attempt that comes to the
// same step continues here and does not run the hook.
type effects struct {
	step    step
	objects []objectpatch.Patch // those that are left
	metrics []hooks.Metric
	// synchronization is what the run was for; its events are held until it has ended. shown is
	// what the hook has seen then.
	synchronization messages.Synchronization
	shown           []messages.Shown
}

// finish applies the effects of a committed result. What fails is kept for the next attempt.
func (h hookJob) finish(e effects) error {
	h.job.Due[e.step] = e // also if this panics
	left, err := h.patchObjects(e.objects)
	if err != nil {
		what := "the rest of its result is in force"
		if !h.job.Task.AllowFailure {
			what += "; this is retried without running the hook again"
		}
		e.objects = left
		h.job.Due[e.step] = e
		return fmt.Errorf("%w (%s)", err, what)
	}
	delete(h.job.Due, e.step)
	if dropped := h.job.Metrics.Reports.Add(h.job.Owner, h.hook.Name, e.metrics); dropped > 0 {
		h.job.Log.Warn("metrics of a hook are dropped: it reports more series than a hook may have", "hook", h.hook.Name, "dropped", dropped, "most", h.job.Metrics.Reports.Limit)
	}
	if len(e.objects) > 0 {
		return h.job.ask(h.run, handOver{}) // that may have taken a while
	}
	return nil
}
