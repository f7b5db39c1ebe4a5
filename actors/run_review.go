package actors

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.opentelemetry.io/otel/attribute"
	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// Review asks a hook, for the server and for tests. The answer comes before the request's time is over, and an error
// says why there is none.
func (o *Operator) Review(ctx context.Context, q messages.Review) (answer messages.Reviewed) {
	began := time.Now()
	late, cancel := context.WithDeadline(ctx, q.Until)
	defer cancel()
	p := o.program
	if tree := p.Runs.Tree.Load(); q.Owner != messages.GlobalHooks && (tree == nil || tree.Module(q.Owner) == nil) {
		return messages.Reviewed{Err: messages.ErrNoHook}
	}
	answer, err := supervisor.AskFor[messages.Reviewed](late, p.System, admissionPath, q)
	if err != nil { // the run may take a moment longer: its hook is being ended
		answer.Hook, answer.Ignore = answers(q, LoadedHooks(p.Inspector.Status(ownerPath(q.Owner))))
		if answer.Err = err; errors.Is(late.Err(), context.DeadlineExceeded) {
			answer.Err = lateReview(cmp.Or(answer.Hook, "of "+q.Owner), q)
		}
	}
	if answer.Hook != "" {
		p.Metrics.Reviewed(q, answer, began)
	}
	return answer
}

// LoadedHooks are those that the status of an owner shows.
func LoadedHooks(status fmt.Stringer) []hooks.Hook {
	switch s := status.(type) {
	case view.ModuleStatus:
		return s.Loaded
	case view.GlobalStatus:
		return s.Loaded
	}
	return nil
}

// answers says which hook answers a request, and whether the API server is to go on without it.
func answers(q messages.Review, loaded []hooks.Hook) (hook string, ignore bool) {
	for _, h := range loaded {
		if b := h.Config.Review(q.Type, q.Name); b != nil {
			return h.Name, *b.Webhook.FailurePolicy == admissionv1.Ignore
		}
		if slices.ContainsFunc(h.Config.Conversions, func(c hooks.Conversion) bool { return q.Type == hooks.OnConversion && c.CRD == q.Name }) {
			return h.Name, false
		}
	}
	return "", false
}

// lateReview is why a request has no answer in time.
func lateReview(hook string, q messages.Review) error {
	return fmt.Errorf("hook %s gave no answer within %s; a hook that writes what it reviews waits for itself", hook, q.Within)
}

// review begins a run for a request, outside of all queues (O5).
func (o *owner) review(ctx actor.Context, q messages.Review) {
	id := "review-" + o.program.Runs.NewID()
	j := o.job(messages.Task{ID: id, Owner: o.name, Work: q, Cause: messages.Cause{Activation: messages.ByReview, Detail: q.Name}})
	asker, answered := ctx.Sender(), false
	answer := func(ctx sender, a messages.Reviewed) {
		if !answered {
			ctx.Send(asker, a)
		}
		answered = true
	}
	o.Runs.Start(ctx, supervisor.Task{
		ID: id, AllowFailure: true,
		Begins: func() { *j.Known = o.self.known() },
		Work:   func(run *supervisor.Run) (any, error) { return j.review(run, q), nil },
		Succeeded: func(ctx actor.Context, result any) { // at once: the API server waits
			a, _ := result.(messages.Reviewed)
			answer(ctx, a)
		},
		Ended: func(ctx actor.Context, _ bool) { answer(ctx, messages.Reviewed{Err: errNotLoaded}) },
	})
}

// review is the work of such a run. Hooks that are not loaded, because their module waits, starts again, or is
// disabled and not deleted yet, are asked for their configuration here.
func (j Job) review(run *supervisor.Run, q messages.Review) (answer messages.Reviewed) {
	ctx, cancel := context.WithDeadline(run.Context(), q.Until)
	defer cancel()
	run = run.With(ctx)
	if j.Owner != messages.GlobalHooks && !j.Known.Loaded {
		err := j.loadHooks(run)
		if errors.Is(err, errNotLoaded) {
			err = j.atMost(run.Context(), "", 1, func() (err error) {
				j.Known.Hooks, err = j.LoadModuleHooks(run.Context(), j.Known.Module)
				return err
			})
		}
		if err != nil {
			return messages.Reviewed{Err: err}
		}
	}
	var ignore bool
	if answer.Hook, ignore = answers(q, j.Known.Hooks); answer.Hook == "" { // an earlier process has configured it
		run.Tell(admissionPath, messages.ServeReviews{Owner: j.Owner, Hooks: j.Known.Hooks})
		return messages.Reviewed{Err: messages.ErrNoHook}
	}
	if q.Type == hooks.OnConversion {
		return j.convert(run, q)
	}
	answer.Ignore = ignore
	hook := j.Known.Hooks[slices.IndexFunc(j.Known.Hooks, func(h hooks.Hook) bool { return h.Name == answer.Hook })]
	b := hook.Config.Review(q.Type, q.Name)
	c := hooks.Context{Binding: b.Name, Type: hooks.TypeValidating}
	if q.Type == hooks.OnMutating {
		c.Type = hooks.TypeMutating
	}
	if c.Review, answer.Err = values.Encode(map[string]any{"request": q.Request}); answer.Err == nil {
		answer.Response, answer.Err = hookJob{j, run, hook}.respond(q, b.Binding, c)
	}
	if answer.Err == nil && answer.Response.Patch != nil {
		var request struct{ Object json.RawMessage }
		if json.Unmarshal(q.Request, &request) == nil {
			if _, err := answer.Response.Patched(request.Object); err != nil {
				answer.Err = fmt.Errorf("hook %s: %w", hook.Name, err)
			}
		}
	}
	return answer
}

// convert converts objects by the shortest chain of steps, each of which is one run for all objects that are at it
// (O7).
func (j Job) convert(run *supervisor.Run, q messages.Review) (answer messages.Reviewed) {
	answer.Hook, _ = answers(q, j.Known.Hooks)
	steps := j.stepsTo(q)
	objects := slices.Clone(q.Objects)
	for {
		var at chained // where the objects are that have the longest way
		var which []int
		for i, object := range objects {
			var is struct{ APIVersion string }
			if err := json.Unmarshal(object, &is); err != nil {
				answer.Err = fmt.Errorf("objects[%d]: %w", i, err)
				return answer
			}
			switch step, known := steps[is.APIVersion]; {
			case is.APIVersion == q.To:
			case !known:
				answer.Err = fmt.Errorf("no chain of hooks converts %s of %s to %s", q.Name, is.APIVersion, q.To)
				return answer
			case step.length > at.length:
				at, which = step, []int{i}
			case step.length == at.length && step.From == at.From:
				which = append(which, i)
			}
		}
		if len(which) == 0 {
			answer.Response = &hooks.Response{Objects: objects}
			return answer
		}
		answer.Hook = at.hook.Name
		if answer.Err = j.convertStep(run, q, at, objects, which); answer.Err != nil {
			return answer
		}
	}
}

// atMost does something when fewer than most others of the same name do it, within the owner.
func (j Job) atMost(ctx context.Context, name string, most int, do func() error) error {
	known, _ := j.Limits.answering.LoadOrStore(name, semaphore.NewWeighted(int64(most)))
	turn, _ := known.(*semaphore.Weighted)
	if err := turn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer turn.Release(1)
	return do()
}

// chained is a step of a chain.
type chained struct {
	hooks.ConversionStep
	hook    hooks.Hook
	binding hooks.Binding
	length  int // of the chain from here
}

// stepsTo are the first steps of the shortest chains to the version that is wanted, by where they begin.
func (j Job) stepsTo(q messages.Review) map[string]chained {
	next := map[string]chained{}
	for frontier, length := []string{q.To}, 1; len(frontier) > 0; length++ {
		var reached []string
		for _, hook := range j.Known.Hooks {
			for _, c := range hook.Config.Conversions {
				for _, step := range c.Steps {
					if _, known := next[step.From]; c.CRD == q.Name && !known && step.From != q.To && slices.Contains(frontier, step.To) {
						next[step.From] = chained{step, hook, c.Binding, length}
						reached = append(reached, step.From)
					}
				}
			}
		}
		frontier = reached
	}
	return next
}

// convertStep replaces the objects with the given indices by those that the hook of a step gives back.
func (j Job) convertStep(run *supervisor.Run, q messages.Review, at chained, objects []json.RawMessage, which []int) error {
	before := make([]json.RawMessage, len(which))
	for i, index := range which {
		before[i] = objects[index]
	}
	review, err := values.Encode(map[string]any{"request": map[string]any{"desiredAPIVersion": at.To, "objects": before}})
	if err != nil {
		return err
	}
	c := hooks.Context{Binding: at.binding.Name, Type: hooks.TypeConversion, FromVersion: at.From, ToVersion: at.To, Review: review}
	response, err := hookJob{j, run, at.hook}.respond(q, at.binding, c)
	switch {
	case err != nil:
		return err
	case response.Failed != "":
		return fmt.Errorf("hook %s: %s", at.hook.Name, response.Failed)
	}
	if err := hooks.CheckConverted(before, response.Objects, at.To); err != nil {
		return fmt.Errorf("hook %s: CONVERSION_RESPONSE_PATH: %w", at.hook.Name, err)
	}
	for i, index := range which {
		objects[index] = response.Objects[i]
	}
	return nil
}

// respond runs the hook for a request. As many runs of a hook answer at a time as there are processors, next to
// its other runs; the others wait as long as their request has time. Objects, but for a dry run, and metrics have
// their effect before the answer is given; a patch of values is refused, because no one would see what it was for.
func (h hookJob) respond(q messages.Review, b hooks.Binding, c hooks.Context) (_ *hooks.Response, err error) {
	var s span
	h.run, s = h.span(h.run, "hook run", attribute.String("hook", h.hook.Name), attribute.String("binding", b.Name))
	defer func() {
		if err != nil && errors.Is(h.run.Context().Err(), context.DeadlineExceeded) {
			err = lateReview(h.hook.Name, q)
		}
		s.End(err)
	}()
	h.run.Step("%s: waits until others have answered", h.hook.Name)
	var response *hooks.Response
	err = h.atMost(h.run.Context(), h.hook.Name, runtime.GOMAXPROCS(0), func() (err error) {
		response, err = h.answer(q, b, c)
		return err
	})
	return response, err
}

// answer is respond without the wait.
func (h hookJob) answer(q messages.Review, b hooks.Binding, c hooks.Context) (_ *hooks.Response, err error) {
	if len(b.Snapshots) > 0 {
		snapshots, err := h.snapshots(messages.Synchronization{})
		if err == nil && snapshots.Waiting != "" {
			err = fmt.Errorf("hook %s: one of its bindings has no complete snapshot: %s", h.hook.Name, snapshots.Waiting)
		}
		if err != nil {
			return nil, err
		}
		c.Snapshots = pick(snapshots, b.Snapshots)
	}
	result, failed := h.process(q.Type, []hooks.Context{c})
	defer func() {
		if err == nil || !errors.Is(h.run.Context().Err(), context.Canceled) { // else it was ended
			h.Metrics.HookEnded(h.Owner, h.hook.Name, b.Name, h.Task, result.Usage, err)
		}
	}()
	if len(result.ValuesPatch)+len(result.ConfigPatch) > 0 {
		return nil, fmt.Errorf("hook %s: a run for the API server cannot change values; write them in a kubernetes binding", h.hook.Name)
	}
	objects, err := h.objectPatches(result, failed != nil)
	if err = errors.Join(failed, err); err == nil {
		err = h.Metrics.Reports.Check(result.Metrics)
	}
	if !q.DryRun && (err == nil || failed != nil) { // those with ignoreHookError (K9)
		_, refused := h.patchObjects(objects)
		err = errors.Join(err, refused)
	}
	if err != nil {
		return nil, err
	}
	h.Metrics.Reports.Add(h.Owner, h.hook.Name, result.Metrics)
	return result.Response, nil
}
