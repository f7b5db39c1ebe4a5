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

	"addon-operator/actors/decide"
	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/helm"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// healer receives which objects of releases are gone, and which releases another client has
// changed, and queues runs of their modules (G15, H13). Watching is the business of helm; known
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

	patients map[string]*patient // by module
	// owners are the modules of an object, by object; two charts may have the same one.
	owners map[helm.Object][]string
	states objectStates
	// assess makes the watches report the health of these objects again.
	assess func(written []helm.Object)
}

// patient is a module as the healer sees it. There is one from the first run until the module is
// switched off.
type patient struct {
	life    releaseLife
	objects []helm.Object
	applied time.Time    // when objects became its objects
	health  *view.Health // as the module knows it
	// gone are objects that Helm must apply again.
	gone map[helm.Object]bool
	// doubtful went while the module ran; true for those that went before Helm was done.
	doubtful map[helm.Object]bool
	// tried are objects that went between Helm and the end of a run, or right after it: a hook of
	// the module may have deleted them, or another client. Each is brought back once; if it goes
	// again in the same way, a hook deletes it. An object that stays until the next run is removed
	// from here.
	tried   map[helm.Object]bool
	changed bool      // another client wrote the records of the release
	hooks   bool      // the module has hooks, which may take objects away
	ended   time.Time // the last run
	timer   *time.Timer
	due     time.Time // of the timer; zero without one
	first   time.Time // the first report since a run was last queued; zero without one
	fights  fights
}

// healDelay is how long a module waits after a report for others, so that one run heals them
// all.
const healDelay = time.Second

func (h *healer) delay() time.Duration { return cmp.Or(h.program.HealDelay, healDelay) }

// These are the messages to the healer from watches and timers.
type (
	objectGone     struct{ object helm.Object }
	releaseChanged struct{ release string }
	healDue        struct {
		module string
		due    time.Time // of the timer; it does not count when there is another by now
	}
	fightOver struct {
		module string
		object helm.Object
		times  int
	}
)

// New makes the actor. Watches end with ctx.
func New(ctx context.Context, p *shared.Program) actor.Actor {
	return &healer{program: p, log: p.Log, ctx: ctx, patients: map[string]*patient{}, owners: map[helm.Object][]string{}, states: newObjectStates(p.ProgressDeadline), assess: func([]helm.Object) {}}
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
	case releaseChanged:
		h.releaseChanged(ctx, msg.release)
	case work.RunBegan:
		h.runBegan(msg)
	case work.ReleaseApplied:
		h.releaseApplied(ctx, msg)
	case work.ReportHealth:
		h.reportNow(ctx, msg)
	case work.RunEnded:
		h.runEnded(ctx, msg)
	case work.ModuleGone:
		h.forget(ctx, msg.Module)
	case healDue:
		h.healDue(ctx, msg)
	case fightOver:
		h.fightOver(ctx, msg)
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
		Gone:    func(o helm.Object) { h.program.Send(self, objectGone{o}) },
		Changed: func(name string) { h.program.Send(self, releaseChanged{name}) },
		Health:  func(o helm.Object, now helm.Health) { h.program.Send(self, objectHealth{o, now}) },
	})
}

// patient returns the module as the healer knows it, and begins to know it.
func (h *healer) patient(module string) *patient {
	p := h.patients[module]
	if p == nil {
		p = &patient{life: releaseLife{h.log.With("module", module), created}, gone: map[helm.Object]bool{}, doubtful: map[helm.Object]bool{}, tried: map[helm.Object]bool{}, fights: fights{program: h.program, module: module, objects: map[helm.Object]*fight{}}}
		h.patients[module] = p
	}
	return p
}

// objectGone decides by the phase of the release what the absence means, see healer.
func (h *healer) objectGone(ctx actor.Context, o helm.Object) {
	for _, name := range h.owners[o] {
		p := h.patients[name]
		late := p.hooks && h.program.HealDelay == 0 && time.Since(p.ended) < shared.NewsDelay
		switch {
		case p.life.phase != resting:
			p.doubtful[o] = p.doubtful[o] || p.life.phase == running
		case late && p.tried[o]:
			h.taken(name, o)
		default:
			p.try(o, late)
			h.lost(ctx, name, p, o)
			h.healLater(ctx, name, p)
		}
	}
}

// releaseChanged: writes of records during a run are Helm's own.
func (h *healer) releaseChanged(ctx actor.Context, name string) {
	if p := h.patients[name]; p != nil && p.life.phase == resting && len(p.objects) > 0 {
		p.changed = true
		h.healLater(ctx, name, p)
	}
}

// runBegan: the run heals what is gone, so no timer is needed. What it found present was not
// deleted by a hook.
func (h *healer) runBegan(msg work.RunBegan) {
	p := h.patient(msg.Module)
	p.life.become(running)
	p.first = time.Time{}
	clear(p.doubtful)
	maps.DeleteFunc(p.tried, func(o helm.Object, _ bool) bool { return !slices.Contains(msg.Absent, o) })
	p.stopTimer()
}

// lost notes an object that Helm must apply again.
func (h *healer) lost(ctx actor.Context, module string, p *patient, o helm.Object) {
	if !p.gone[o] {
		p.gone[o] = true
		ctx.Send(h.program.Owner(module), work.ObjectsGone{Objects: []helm.Object{o}})
	}
}

// releaseApplied takes over the objects of a release as Helm has just written it. Back are those of
// the missing ones that it has written.
func (h *healer) releaseApplied(ctx actor.Context, msg work.ReleaseApplied) {
	p := h.patient(msg.Module)
	h.disown(msg.Module, p)
	if !slices.Equal(p.objects, msg.Objects) {
		p.applied = time.Now()
		h.reassess(ctx, msg.Module)
	}
	p.life.become(applied)
	p.objects, p.changed = msg.Objects, false
	for _, o := range msg.Objects {
		h.owners[o] = append(h.owners[o], msg.Module)
	}
	for _, o := range msg.Back {
		delete(p.gone, o)
	}
	p.fights.applied(ctx, msg.Objects)
}

// runEnded decides about objects that went during the run, see patient.tried.
func (h *healer) runEnded(ctx actor.Context, msg work.RunEnded) {
	p := h.patient(msg.Module)
	p.life.become(resting)
	p.hooks, p.ended = msg.Hooks, time.Now()
	if p.hooks {
		maps.DeleteFunc(p.doubtful, func(o helm.Object, beforeApplied bool) bool {
			if !beforeApplied && p.tried[o] {
				h.taken(msg.Module, o)
				return true
			}
			p.try(o, !beforeApplied)
			return false
		})
	}
	if len(p.doubtful)+len(p.gone) > 0 {
		h.healLater(ctx, msg.Module, p)
	}
}

// try notes whether a hook may have taken away what is brought back now.
func (p *patient) try(o helm.Object, mayBeHook bool) {
	if mayBeHook {
		p.tried[o] = true
	} else {
		delete(p.tried, o)
	}
}

// taken is called for an object that is not brought back: a heal would undo what a hook of the
// module wants, in every run.
func (h *healer) taken(module string, o helm.Object) {
	h.log.Debug("an object is deleted at the end of each run: a hook of the module deletes it", "module", module, "object", o.String())
}

// forget is called when a module is switched off or deleted.
func (h *healer) forget(ctx actor.Context, module string) {
	if p := h.patients[module]; p != nil {
		if p.health != nil {
			ctx.Send(h.program.Owner(module), work.HealthChanged{Health: nil})
		}
		p.stopTimer()
		h.disown(module, p)
		delete(h.patients, module)
	}
}

// disown removes a module from the owners of its objects. Afterwards reports about them no longer
// concern it.
func (h *healer) disown(module string, p *patient) {
	for _, o := range p.objects {
		others := slices.DeleteFunc(h.owners[o], func(name string) bool { return name == module })
		if h.owners[o] = others; len(others) == 0 {
			delete(h.owners, o)
		}
	}
}

// healLater queues a run a moment after the last report, later in a fight. Reports that never end
// delay it healNews times at most.
func (h *healer) healLater(ctx actor.Context, module string, p *patient) {
	now, delay := time.Now(), h.delay()
	if p.first.IsZero() {
		p.first = now
	}
	due := now.Add(delay)
	if last := p.first.Add(healNews * delay); due.After(last) {
		due = last
	}
	if end := p.truce(); end.After(due) {
		due = end
	}
	if !due.Equal(p.due) {
		h.healAt(ctx, module, p, due)
	}
}

func (h *healer) healAt(ctx actor.Context, module string, p *patient, due time.Time) {
	p.stopTimer()
	p.due = due
	p.timer = h.program.SendLater(ctx, time.Until(due), healDue{module, due})
}

// stopTimer also makes a message void that the timer has sent already: due is compared.
func (p *patient) stopTimer() {
	if p.timer != nil {
		p.timer.Stop()
	}
	p.due = time.Time{}
}

// healDue heals the modules whose time has come, in their order: one cause, such as a CRD that is
// deleted, may concern several, and a later module may need what an earlier one brings. So a module
// waits for those before it whose time comes in a moment.
func (h *healer) healDue(ctx actor.Context, msg healDue) {
	p := h.patients[msg.module]
	if p == nil || !p.due.Equal(msg.due) || h.ctx.Err() != nil {
		return
	}
	now, moment := time.Now(), h.delay()
	soon := map[string][]decide.Object{}
	for name, p := range h.patients {
		if p.life.phase != resting || p.due.IsZero() || p.due.After(now.Add(moment)) {
			continue
		}
		soon[name] = nil
		for o := range p.gone {
			soon[name] = append(soon[name], work.ObjectOf(o))
		}
	}
	order := decide.HealOrder(h.program.EnabledModules(), soon)
	for i, name := range order {
		if p := h.patients[name]; p.due.After(now) {
			h.waitFor(ctx, p.due, now, order[i+1:])
		} else {
			h.heal(ctx, name, p)
		}
	}
}

// waitFor makes modules wait for an earlier one, unless they have waited long enough.
func (h *healer) waitFor(ctx actor.Context, until, now time.Time, modules []string) {
	longest := healNews * h.delay()
	for _, name := range modules {
		if p := h.patients[name]; !p.due.After(now) && !until.After(p.first.Add(longest)) {
			h.healAt(ctx, name, p, until)
		}
	}
}

// heal queues a run of the module. What went during a run is looked for now: Helm may have applied
// it again. Urgent: the run goes past failing tasks, which may fail because of what is gone.
func (h *healer) heal(ctx actor.Context, module string, p *patient) {
	p.stopTimer()
	for o := range p.doubtful {
		if !h.program.ReleaseWatch.Present(o) {
			h.lost(ctx, module, p, o)
		}
	}
	clear(p.doubtful)
	maps.DeleteFunc(p.gone, func(o helm.Object, _ bool) bool { return !slices.Contains(p.objects, o) })
	cause := messages.Cause{Activation: messages.ByRelease, Detail: "another client changed the records of the release"}
	if len(p.gone) > 0 {
		gone := slices.SortedFunc(maps.Keys(p.gone), compareObjects)
		h.program.Metrics.Modules.Absent(module, gone)
		cause = messages.Cause{Activation: messages.ByAbsence, Detail: describeObjects(gone)}
	} else if !p.changed {
		p.first = time.Time{}
		return
	}
	h.log.Warn("release is not as the module left it; the module runs again", "module", module, "cause", cause)
	p.fights.healed(ctx, p.ailments())
	t := h.program.NewTask(module, messages.RunModule{}, cause)
	t.Urgent = true
	h.program.Enqueue(ctx, false, t)
	p.changed, p.first = false, time.Time{}
}

// released are the objects of the modules that have run.
func (h *healer) released() work.Released {
	all := map[string][]helm.Object{}
	for name, p := range h.patients {
		if p.objects != nil {
			all[name] = p.objects
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
	for name, p := range h.patients {
		if len(p.gone)+len(p.doubtful) > 0 {
			status.Ailing = append(status.Ailing, name)
		}
	}
	slices.Sort(status.Ailing) // a few of hundreds
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
