package healer

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/helm"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// healer receives which objects of releases are gone, and queues runs of their modules (G15, H13). Watching is the business of helm; known
// here is to which module an object belongs, and what the module was doing when it went.
//
// What counts depends on the phase of the release (releasePhase):
//
//	resting   -> the module runs again, a second after the last report
//	running   -> Helm may have passed the object already: it is looked for when the run has ended
//	applied   -> a hook of the module may have deleted it on purpose: it is brought back once; if it is gone
//	             at the end of that run, too, the healer assumes that a hook deletes it. Such a report may
//	             be late. Without hooks another client has deleted it: it is looked for when the run ends
//
// The module receives the list of what is gone, so that it can hand it over to any of its runs.
type healer struct {
	program *shared.Program
	log     *slog.Logger
	ctx     context.Context // ends with the program

	releases map[string]*releaseState // by module
	// owners are the modules of an object, by object; two charts may have the same one.
	owners map[helm.Object][]string
	states objectStates
	// assess makes the watches report the health of these objects again.
	assess func(written []helm.Object)
}

// releaseState is what the healer stores about the release of a module, from the first run until the
// module is switched off.
type releaseState struct {
	life    releaseLife
	objects []helm.Object
	ends    map[helm.Object]bool // those of objects that end by themselves; true: they have
	applied time.Time            // when objects became its objects
	health  *view.Health         // as the module knows it
	// gone are objects that Helm must apply again.
	gone map[helm.Object]bool
	// goneInRun went while the module ran; true for those that went before Helm was done.
	goneInRun map[helm.Object]bool
	// tried are objects that went between Helm and the end of a run, or right after it: a hook of
	// the module may have deleted them, or another client. Each is brought back once; if it goes
	// again in the same way, a hook deletes it. An object that stays until the next run is removed
	// from here.
	tried map[helm.Object]bool
	hooks bool      // the module has hooks, which may take objects away
	ended time.Time // the last run
	timer *time.Timer
	due   time.Time // of the timer; zero without one
	first time.Time // the first report since a run was last queued; zero without one
	heals healHistory
}

// healDelay is how long a module waits after a report for others, so that one run heals them
// all. Those of a prompt watch follow each other at once.
const healDelay, promptHealDelay = time.Second, time.Millisecond

func (h *healer) delay() time.Duration {
	if h.program.PromptReleaseWatch {
		return promptHealDelay
	}
	return healDelay
}

// These are the messages to the healer from watches and timers.
type (
	objectGone struct{ object helm.Object }
	healDue    struct {
		module string
		due    time.Time // of the timer; it does not count when there is another by now
	}
	quietPeriodOver struct {
		module string
		object helm.Object
		times  int
	}
)

// New makes the actor. Watches end with ctx.
func New(ctx context.Context, p *shared.Program) actor.Actor {
	return &healer{program: p, log: p.Log, ctx: ctx, releases: map[string]*releaseState{}, owners: map[helm.Object][]string{}, states: newObjectStates(), assess: func([]helm.Object) {}}
}

// Receive implements actor.Actor.
func (h *healer) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		h.watch(ctx.Self())
	case objectGone:
		h.states.forget(msg.object)
		h.objectGone(ctx, msg.object)
		h.reassess(ctx, h.owners[msg.object]...)
	case objectHealth:
		h.states.learn(msg, time.Now())
		h.reassess(ctx, h.owners[msg.object]...)
	case healthDue:
		h.reportHealth(ctx)
		return
	case work.RunBegan:
		h.runBegan(msg)
	case work.ReleaseApplied:
		h.releaseApplied(ctx, msg)
		h.reportNow(ctx, msg)
	case work.RunEnded:
		h.runEnded(ctx, msg)
	case messages.ModuleGone:
		h.forget(ctx, msg.Module)
	case healDue:
		h.healDue(ctx, msg)
	case quietPeriodOver:
		h.quietPeriodOver(ctx, msg)
	case messages.ListMonitored:
		ctx.Respond(h.monitored())
		return
	case work.GetReleased:
		ctx.Respond(h.released())
		return
	default:
		shared.Unhandled(ctx, h.log)
	}
	h.publish(ctx)
}

// watch begins to watch the objects of releases. The functions are called from goroutines of
// package helm, so they only send. Without a ReleaseWatch nothing is healed, and health is unknown.
func (h *healer) watch(self *actor.PID) {
	if h.program.ReleaseWatch == nil {
		return
	}
	h.assess = h.program.ReleaseWatch.Watch(h.ctx, helm.News{
		Gone:   func(o helm.Object) { h.program.Send(self, objectGone{o}) },
		Health: func(o helm.Object, now helm.Health) { h.program.Send(self, objectHealth{o, now}) },
	})
}

// release returns the state of the release of a module, and creates it if there is none.
func (h *healer) release(module string) *releaseState {
	r := h.releases[module]
	if r == nil {
		r = &releaseState{life: releaseLife{h.log.With("module", module), created}, gone: map[helm.Object]bool{}, goneInRun: map[helm.Object]bool{}, tried: map[helm.Object]bool{}, heals: healHistory{program: h.program, module: module, objects: map[helm.Object]*recentHeals{}}}
		h.releases[module] = r
	}
	return r
}

// objectGone decides by the phase of the release what the absence means, see healer.
func (h *healer) objectGone(ctx actor.Context, o helm.Object) {
	for _, name := range h.owners[o] {
		r := h.releases[name]
		if _, ends := r.ends[o]; ends {
			r.ends[o] = true
			if r.life.phase == running { // releaseApplied decides
				r.goneInRun[o] = true
			}
			continue
		}
		mayBeLate := r.hooks && !h.program.PromptReleaseWatch && time.Since(r.ended) < shared.NewsDelay
		switch {
		case r.life.phase != resting:
			r.goneInRun[o] = r.goneInRun[o] || r.life.phase == running
		case mayBeLate && r.tried[o]:
			h.taken(name, o)
		default:
			r.try(o, mayBeLate)
			h.lost(ctx, name, r, o)
			h.healLater(ctx, name, r)
		}
	}
}

// runBegan: the run heals what is gone, so no timer is needed. What it found present was not
// deleted by a hook.
func (h *healer) runBegan(msg work.RunBegan) {
	r := h.release(msg.Module)
	r.life.become(running)
	r.first = time.Time{}
	clear(r.goneInRun)
	maps.DeleteFunc(r.tried, func(o helm.Object, _ bool) bool { return !slices.Contains(msg.Absent, o) })
	r.stopTimer()
}

// lost notes an object that Helm must apply again.
func (h *healer) lost(ctx actor.Context, module string, r *releaseState, o helm.Object) {
	if !r.gone[o] {
		r.gone[o] = true
		ctx.Send(h.program.Owner(module), work.ObjectsGone{Objects: []helm.Object{o}})
	}
}

// releaseApplied takes over the objects of a release as Helm has just written it. Back are those of
// the missing ones that it has written.
func (h *healer) releaseApplied(ctx actor.Context, msg work.ReleaseApplied) {
	r := h.release(msg.Module)
	h.disown(msg.Module, r)
	if !slices.Equal(r.objects, msg.Objects) {
		r.applied = time.Now()
		h.reassess(ctx, msg.Module)
	}
	r.life.become(applied)
	r.objects, r.ends = msg.Objects, maps.Clone(msg.Ends)
	for _, o := range msg.Objects {
		h.owners[o] = append(h.owners[o], msg.Module)
	}
	for o := range r.ends { // what has just been written may have ended, too
		if _, went := r.goneInRun[o]; went && !h.program.ReleaseWatch.Present(o) {
			r.ends[o] = true
		}
		delete(r.goneInRun, o)
		delete(r.gone, o)
	}
	for _, o := range msg.Back {
		delete(r.gone, o)
	}
	r.heals.applied(ctx, msg.Objects)
}

// runEnded decides about objects that went during the run, see releaseState.tried.
func (h *healer) runEnded(ctx actor.Context, msg work.RunEnded) {
	r := h.release(msg.Module)
	r.life.become(resting)
	r.hooks, r.ended = msg.Hooks, time.Now()
	if r.hooks {
		maps.DeleteFunc(r.goneInRun, func(o helm.Object, beforeApplied bool) bool {
			if !beforeApplied && r.tried[o] {
				h.taken(msg.Module, o)
				return true
			}
			r.try(o, !beforeApplied)
			return false
		})
	}
	if len(r.goneInRun)+len(r.gone) > 0 {
		h.healLater(ctx, msg.Module, r)
	}
}

// try notes whether a hook may have taken away what is brought back now.
func (r *releaseState) try(o helm.Object, mayBeHook bool) {
	if mayBeHook {
		r.tried[o] = true
	} else {
		delete(r.tried, o)
	}
}

// taken is called for an object that is not brought back: a heal would undo what a hook of the
// module wants, in every run.
func (h *healer) taken(module string, o helm.Object) {
	h.log.Debug("an object is deleted at the end of each run: a hook of the module deletes it", "module", module, "object", o.String())
}

// forget is called when a module is switched off or deleted.
func (h *healer) forget(ctx actor.Context, module string) {
	if r := h.releases[module]; r != nil {
		if r.health != nil {
			ctx.Send(h.program.Owner(module), work.HealthChanged{Health: nil})
		}
		r.stopTimer()
		h.disown(module, r)
		delete(h.releases, module)
	}
}

// disown removes a module from the owners of its objects. Afterwards reports about them no longer
// concern it.
func (h *healer) disown(module string, r *releaseState) {
	for _, o := range r.objects {
		others := slices.DeleteFunc(h.owners[o], func(name string) bool { return name == module })
		if h.owners[o] = others; len(others) == 0 {
			delete(h.owners, o)
		}
	}
}

// healLater queues a run a moment after the last report, later if its objects are contested. Reports that never end
// delay it healNews times at most.
func (h *healer) healLater(ctx actor.Context, module string, r *releaseState) {
	now, delay := time.Now(), h.delay()
	if r.first.IsZero() {
		r.first = now
	}
	due := now.Add(delay)
	if last := r.first.Add(healNews * delay); due.After(last) {
		due = last
	}
	if next := r.nextHeal(); next.After(due) {
		due = next
	}
	if !due.Equal(r.due) {
		h.healAt(ctx, module, r, due)
	}
}

func (h *healer) healAt(ctx actor.Context, module string, r *releaseState, due time.Time) {
	r.stopTimer()
	r.due = due
	r.timer = h.program.SendLater(ctx, time.Until(due), healDue{module, due})
}

// stopTimer also makes a message void that the timer has sent already: due is compared.
func (r *releaseState) stopTimer() {
	if r.timer != nil {
		r.timer.Stop()
	}
	r.due = time.Time{}
}

// healDue heals the modules whose time has come, in their order: one cause, such as a namespace that is deleted, may
// concern several, and a later module may need what an earlier one brings. Those whose time comes in a moment are healed
// with them.
func (h *healer) healDue(ctx actor.Context, msg healDue) {
	r := h.releases[msg.module]
	if r == nil || !r.due.Equal(msg.due) || h.ctx.Err() != nil {
		return
	}
	soon := time.Now().Add(h.delay())
	for _, name := range h.program.EnabledModules() {
		if r := h.releases[name]; r != nil && r.life.phase == resting && !r.due.IsZero() && !r.due.After(soon) {
			h.heal(ctx, name, r)
		}
	}
}

// heal queues a run of the module. What went during a run is looked for now: Helm may have applied
// it again.
func (h *healer) heal(ctx actor.Context, module string, r *releaseState) {
	r.stopTimer()
	for o := range r.goneInRun {
		if !h.program.ReleaseWatch.Present(o) {
			h.lost(ctx, module, r, o)
		}
	}
	clear(r.goneInRun)
	maps.DeleteFunc(r.gone, func(o helm.Object, _ bool) bool { return !slices.Contains(r.objects, o) })
	r.first = time.Time{}
	if len(r.gone) == 0 {
		return
	}
	gone := slices.SortedFunc(maps.Keys(r.gone), compareObjects)
	h.program.Metrics.Modules.Absent(module, gone)
	cause := messages.Cause{Activation: messages.ByAbsence, Detail: describeObjects(gone)}
	h.log.Warn("release is not as the module left it; the module runs again", "module", module, "cause", cause)
	r.heals.healed(ctx, gone)
	h.program.Enqueue(ctx, false, h.program.NewTask(module, messages.RunModule{}, cause))
}

// released are the objects of the modules that have run.
func (h *healer) released() work.Released {
	all := map[string][]helm.Object{}
	for name, r := range h.releases {
		if r.objects != nil {
			all[name] = r.objects
		}
	}
	return work.Released{Objects: all}
}

func compareObjects(a, b helm.Object) int { return cmp.Compare(a.String(), b.String()) }

func describeObjects(gone []helm.Object) string {
	if len(gone) == 1 {
		return gone[0].String()
	}
	return fmt.Sprintf("%s and %d more", gone[0], len(gone)-1)
}

func (h *healer) publish(ctx actor.Context) {
	status := view.HealerStatus{Objects: len(h.owners)}
	for name, r := range h.releases {
		if len(r.gone)+len(r.goneInRun) > 0 {
			status.Incomplete = append(status.Incomplete, name)
		}
	}
	slices.Sort(status.Incomplete) // a few of hundreds
	h.program.Inspector.Publish(ctx.Self(), liveHealer{status, h.program.ReleaseWatch})
}

// liveHealer is what the healer publishes: watches change without a message.
type liveHealer struct {
	status view.HealerStatus
	watch  shared.ReleaseWatch
}

// Healer implements view.HealerReporter.
func (l liveHealer) Healer() view.HealerStatus {
	s := l.status
	if l.watch != nil {
		for _, k := range l.watch.WatchedKinds() {
			s.Watches = append(s.Watches, view.ReleaseWatch{Resource: k.Resource, Objects: k.Objects, Problem: k.Problem, Polled: k.Polled})
		}
	}
	return s
}

// String implements fmt.Stringer.
func (l liveHealer) String() string { return l.Healer().String() }

// MarshalJSON shows what String shows.
func (l liveHealer) MarshalJSON() ([]byte, error) { return json.Marshal(l.Healer()) }
