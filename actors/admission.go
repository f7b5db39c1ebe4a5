package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/hooks"
	"addon-operator/kube/webhooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// Webhooks are what the API server needs to ask hooks. Package kube/webhooks implements it. It is called by one
// goroutine at a time.
type Webhooks interface {
	// Apply makes the cluster as it should be; with onlyDue, if certificates are to be renewed, or the last call has not
	// done all.
	Apply(ctx context.Context, wanted WantedWebhooks, onlyDue bool) AppliedWebhooks
}

// WantedWebhooks are what is to be configured.
type WantedWebhooks = webhooks.Wanted

// AppliedWebhooks are what was configured.
type AppliedWebhooks = webhooks.Applied

// Certificates are looked at each lookPeriod, and what has failed is tried again after failedPeriod.
const lookPeriod, failedPeriod = time.Minute, 5 * time.Second

// admission has the API server ask hooks (chapter O): it owns the certificates, the listener and the configurations in
// the cluster, all of them in World.Webhooks, and gives requests to the owners of hooks.
//
// Configurations stay over a restart, because that is what failurePolicy Fail means. So a start must not wait for
// itself: the first Apply, before any module runs, opens the address and leads what an earlier process has configured
// to it. Whatever the phase of their module, hooks are loaded, and their snapshots taken, when they are asked.
type admission struct {
	*supervisor.Runs
	program *program
	log     *slog.Logger

	served  map[string][]hooks.Hook // by owner, of those that have said it
	order   []string                // of them, as they said it first
	kept    []string                // owners whose hooks may be asked; nil before the first discovery
	waiting []serving               // who waits for an Apply
	asked   int64                   // requests

	begun, ended int              // the last Apply
	due          bool             // another one follows it
	outcome      AppliedWebhooks  // of the last one
	refused      map[string]error // owners whose hooks are not asked as they want
	timer        *time.Timer
}

// serving is an owner that waits for the Apply with this number.
type serving struct {
	pid   *actor.PID
	owner string
	in    int
}

// lookDue is sent by a timer after lookPeriod.
type lookDue struct{}

func newAdmission(p *program) *admission {
	return &admission{Runs: supervisor.NewRuns(p.System), program: p, log: p.Log, served: map[string][]hooks.Hook{}, refused: map[string]error{}}
}

// Receive implements actor.Actor.
func (a *admission) Receive(ctx actor.Context) {
	defer a.publish(ctx)
	if a.Runs.Receive(ctx) {
		return
	}
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		a.apply(ctx, false)
	case messages.Review:
		a.asked++
		if a.ended == 0 || len(a.served[msg.Owner]) > 0 || a.outcome.Owners[msg.Owner] {
			ctx.Forward(a.program.Owner(msg.Owner))
		} else { // nothing is configured for it: no client makes its hooks run
			ctx.Respond(messages.Reviewed{Err: messages.ErrNoHook})
		}
	case messages.ServeReviews:
		a.serve(ctx, msg)
	case messages.KeepReviews:
		a.keep(ctx, msg.Owners)
	case lookDue:
		a.apply(ctx, true)
	default:
		unhandled(ctx, a.log)
	}
}

// serve has the hooks of an owner asked. The owner waits for the Apply that knows of them; one without such hooks, now
// and before, for the one in progress, so that no module runs before this process answers. No one waits if the API
// server has asked for a hook that is not there: what an earlier process has configured must not refuse writes until
// the owner has started.
func (a *admission) serve(ctx actor.Context, msg messages.ServeReviews) {
	asked := slices.DeleteFunc(slices.Clone(msg.Hooks), func(h hooks.Hook) bool { return !h.Config.HasWebhooks() })
	before, known := a.served[msg.Owner]
	if ctx.Sender() == nil && a.kept != nil && !slices.Contains(a.kept, msg.Owner) {
		return // a discovery has decided meanwhile
	}
	if a.served[msg.Owner] = asked; !known {
		a.order = append(a.order, msg.Owner)
	}
	same := func(a, b hooks.Hook) bool { return a.Config == b.Config }
	if ctx.Sender() == nil {
		if !known || !slices.EqualFunc(asked, before, same) {
			a.apply(ctx, false)
		}
		return
	}
	wait := serving{ctx.Sender(), msg.Owner, a.begun}
	if a.due { // it may remove what would refuse the next write
		wait.in++
	}
	if len(asked)+len(before) > 0 {
		wait.in = a.begun + 1
		defer a.apply(ctx, false)
	}
	a.waiting = append(a.waiting, wait)
	a.answer(ctx)
}

// keep removes at the beginning of a reload what is configured for others, and repairs what somebody has changed.
func (a *admission) keep(ctx actor.Context, owners []string) {
	a.kept = owners
	gone := func(owner string) bool { return !slices.Contains(owners, owner) }
	maps.DeleteFunc(a.served, func(owner string, _ []hooks.Hook) bool { return gone(owner) })
	a.order = slices.DeleteFunc(a.order, gone)
	for owner := range a.outcome.Owners {
		if gone(owner) { // its hooks may have answered although it is disabled
			ctx.Send(a.program.PID(monitorsPath), messages.Unwatch{Owner: owner})
		}
	}
	if a.Runs.Len()+len(a.outcome.Owners) > 0 {
		a.apply(ctx, false)
	}
}

// apply begins an Apply, or has one follow that in progress. It is tried once: who waits for it asks again, and so
// does the timer.
func (a *admission) apply(ctx actor.Context, onlyDue bool) {
	if a.Runs.Len() > 0 {
		a.due = true
		return
	}
	a.due = false
	a.begun++
	wanted := a.wanted()
	a.Runs.Start(ctx, supervisor.Task{
		ID: "apply-" + strconv.Itoa(a.begun), AllowFailure: true,
		Work: func(run *supervisor.Run) (any, error) {
			run.Step("configure webhooks")
			return a.program.Webhooks.Apply(run.Context(), wanted, onlyDue), nil
		},
		Succeeded: func(_ actor.Context, result any) { a.outcome, _ = result.(AppliedWebhooks) },
		Ended:     func(ctx actor.Context, _ bool) { a.applied(ctx) }, // not done: the program ends
	})
}

// applied answers who has waited for the Apply that has ended, and begins the next one if that is due.
func (a *admission) applied(ctx actor.Context) {
	a.ended = a.begun
	for owner, err := range a.failed() {
		a.log.Error("webhooks could not be configured, will retry", "owner", owner, "err", err)
	}
	a.answer(ctx)
	switch {
	case a.due:
		a.apply(ctx, false)
	case len(a.outcome.Failed)+len(a.outcome.Owners) > 0:
		if a.timer != nil {
			a.timer.Stop()
		}
		period := cmp.Or(a.program.WebhookPeriod, lookPeriod)
		if len(a.outcome.Failed) > 0 {
			period = min(period, failedPeriod)
		}
		a.timer = a.program.SendLater(ctx, period, lookDue{})
	}
}

// answer answers owners. One without hooks that are asked is no matter of what has failed.
func (a *admission) answer(ctx actor.Context) {
	a.waiting = slices.DeleteFunc(a.waiting, func(w serving) bool {
		if w.in > a.ended {
			return false
		}
		var served messages.ReviewsServed
		if failed := a.failed(); len(a.served[w.owner]) > 0 && !errors.Is(failed[""], webhooks.ErrRemoved) {
			served.Err = errors.Join(failed[""], failed[w.owner])
		}
		ctx.Send(w.pid, served)
		return true
	})
}

// failed are errors by owner, by an empty one those of all.
func (a *admission) failed() map[string]error {
	failed := maps.Clone(a.refused)
	maps.Copy(failed, a.outcome.Failed)
	return failed
}

// wanted is what is to be configured. It shares nothing that the actor changes later.
func (a *admission) wanted() webhooks.Wanted {
	w, by := webhooks.Wanted{Owners: map[string]webhooks.Owned{}}, map[string]string{}
	a.refused = map[string]error{}
	for _, owner := range a.order { // who converts a CRD goes on
		var owned webhooks.Owned
		asked := a.served[owner]
		for _, hook := range asked {
			for _, r := range hook.Config.Reviews {
				if r.Type == hooks.OnMutating {
					owned.Mutating = append(owned.Mutating, r.Webhook)
				} else {
					owned.Validating = append(owned.Validating, r.Webhook)
				}
			}
			for _, c := range hook.Config.Conversions {
				switch other := by[c.CRD]; other {
				case "":
					by[c.CRD], owned.CRDs = owner, append(owned.CRDs, c.CRD)
				case owner:
				default:
					a.refused[owner] = fmt.Errorf("hook %s: objects of %s are converted by hooks of %s; one module has all steps of a CRD",
						hook.Name, c.CRD, other)
				}
			}
		}
		w.Owners[owner] = owned
	}
	if kept := a.kept; kept != nil {
		w.Keep = func(owner string) bool { return slices.Contains(kept, owner) }
	}
	return w
}

func (a *admission) publish(ctx actor.Context) {
	s := view.AdmissionStatus{Asked: a.asked}
	for _, owner := range a.order {
		for _, hook := range a.served[owner] {
			s.Hooks = append(s.Hooks, hook.Name)
		}
	}
	if err := errors.Join(slices.Collect(maps.Values(a.failed()))...); err != nil {
		s.Error = err.Error()
	}
	a.program.Inspector.Publish(ctx.Self(), s)
}

// serveReviews has the API server ask the hooks of the owner, after its start-up and before Helm (O2), and waits until
// this process answers at all.
func (j Job) serveReviews(run *supervisor.Run) error {
	if !j.Reviews {
		for _, hook := range j.Known.Hooks {
			if hook.Config.HasWebhooks() {
				const how = "set ADDON_OPERATOR_WEBHOOK_ADDRESS, or webhooks.enabled of the chart"
				return fmt.Errorf("hook %s: webhooks are not served here; %s", hook.Name, how)
			}
		}
		return nil
	}
	if err := hooks.CheckWebhookNames(j.Known.Hooks); err != nil {
		return err
	}
	run.Step("configure webhooks")
	served, err := supervisor.Ask[messages.ReviewsServed](run, admissionPath, messages.ServeReviews{Owner: j.Owner, Hooks: j.Known.Hooks})
	return cmp.Or(err, served.Err)
}
