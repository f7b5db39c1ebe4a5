package actors

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"golang.org/x/time/rate"

	"addon-operator/helm"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// healer receives which objects of releases are gone, and queues runs of their modules (G15, H13). Watching is the
// business of helm; known here is to which module an object belongs. A moment after a report it looks at what the
// modules have published: when the runs of one are over, and the object is still absent, the module runs again. While
// a run is in progress, Helm may still apply the object, so the healer looks again later. Helm itself finds what is
// absent.
//
// It also knows how the objects are doing, and shows it (H25).
type healer struct {
	program *program
	ctx     context.Context // ends with the program
	delay   time.Duration   // from a report to the look: one run heals all that went meanwhile

	releases map[string]*releaseState // by module, from its first run until it is switched off
	owners   map[helm.Object]string   // the module of each object
	states   map[helm.Object]view.ObjectHealth
	due      bool // a healDue is on its way
	// assess makes the watches report the health of these objects again.
	assess func(written []helm.Object)

	mu   sync.Mutex   // guards news
	news []objectNews // that the watches have reported since objectsSeen was handled
}

// releaseState is what the healer stores about the release of a module.
type releaseState struct {
	objects []helm.Object        // sorted
	ends    map[helm.Object]bool // those that end by themselves
	gone    map[helm.Object]bool // reported since the last heal, and not back
	health  *view.Health         // published: it is replaced, never changed
	heals   *rate.Limiter
}

// A module is healed so many times in a row, and then once in each pause: another client, or one of its hooks, may
// delete the objects again and again.
const (
	healsInARow = 5
	healPause   = 30 * time.Second
)

// deletionDelays is for how many delays heals wait for objects that are being deleted. After that, finalizers are
// taken to keep them.
const deletionDelays = 10

// unread is what is known of an object that Helm has written, or that is gone.
const unread = "it does not exist, or has not been read yet"

type (
	// healDue is sent by the timer.
	healDue struct{}
	// objectsSeen: there are news. What the watches report of many objects at once is one message, in their order.
	objectsSeen struct{}
	objectNews  struct {
		object helm.Object
		health helm.Health // without a state: it is gone
	}
)

// newHealer makes the actor. Watches end with ctx.
func newHealer(ctx context.Context, p *program) *healer {
	return &healer{
		program: p, ctx: ctx, delay: cmp.Or(p.HealDelay, time.Second), releases: map[string]*releaseState{},
		owners: map[helm.Object]string{}, states: map[helm.Object]view.ObjectHealth{},
	}
}

// Receive implements actor.Actor. Without a ReleaseWatch nothing is healed, and health is unknown.
func (h *healer) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		h.watch(ctx.Self())
	case objectsSeen:
		h.objectsSeen(ctx)
	case releaseApplied:
		if h.program.ReleaseWatch != nil {
			h.releaseApplied(ctx, msg)
		}
	case healDue:
		h.healDue(ctx)
	default:
		unhandled(ctx, h.program.Log)
	}
	h.publish(ctx)
	if ctx.Sender() != nil { // releaseApplied, when what has come of it is published
		ctx.Respond(struct{}{})
	}
}

// watch begins to watch the objects of releases. The functions are called from goroutines of package helm.
func (h *healer) watch(self *actor.PID) {
	if h.program.ReleaseWatch != nil {
		h.assess = h.program.ReleaseWatch.Watch(h.ctx, helm.News{
			Gone:   func(o helm.Object) { h.note(self, objectNews{object: o}) },
			Health: func(o helm.Object, now helm.Health) { h.note(self, objectNews{o, now}) },
		})
	}
}

// note keeps what a watch reports until the healer looks at it.
func (h *healer) note(self *actor.PID, news objectNews) {
	h.mu.Lock()
	h.news = append(h.news, news)
	first := len(h.news) == 1
	h.mu.Unlock()
	if first {
		h.program.Send(self, objectsSeen{})
	}
}

// objectsSeen learns what the watches have reported, and sums it up once for each module.
func (h *healer) objectsSeen(ctx actor.Context) {
	h.mu.Lock()
	all := h.news
	h.news = nil
	h.mu.Unlock()
	modules := map[string]bool{}
	for _, news := range all {
		module := h.owners[news.object]
		if modules[module] = true; news.health.State == "" {
			h.objectGone(ctx, news.object)
			continue
		}
		h.learn(news.object, news.health)
		if r := h.releases[module]; r != nil {
			delete(r.gone, news.object)
		}
	}
	for module := range modules {
		h.report(module)
	}
}

// learn takes over the health of an object. One that stays in its state is in it since the beginning of that.
func (h *healer) learn(o helm.Object, now helm.Health) {
	since := time.Now()
	if old := h.states[o]; old.State == now.State {
		since = old.Since
	}
	h.states[o] = view.ObjectHealth{Object: o.String(), State: now.State, Message: now.Message, Since: since}
}

// objectGone notes that an object is gone, which is looked at a moment later. One that ends by itself has ended.
func (h *healer) objectGone(ctx actor.Context, o helm.Object) {
	r := h.releases[h.owners[o]]
	if r == nil || r.ends[o] {
		delete(h.states, o)
		return
	}
	h.learn(o, helm.Health{State: view.ObjectUnknown, Message: unread})
	r.gone[o] = true
	h.look(ctx)
}

// releaseApplied takes over the objects of a release as Helm has just written it; without any the release is
// forgotten. The run waits for the answer: the health of its objects is published by then, and the module is not ready
// with that of before (H25). What is new and not there may have gone before it was known whose it is.
func (h *healer) releaseApplied(ctx actor.Context, msg releaseApplied) {
	r := h.releases[msg.Module]
	if r == nil {
		r = &releaseState{gone: map[helm.Object]bool{}, heals: rate.NewLimiter(rate.Every(healPause), healsInARow)}
		h.releases[msg.Module] = r
	}
	before := r.objects
	for _, o := range before {
		if h.owners[o] == msg.Module {
			delete(h.owners, o)
		}
	}
	byName := func(a, b helm.Object) int { return cmp.Compare(a.String(), b.String()) }
	r.objects, r.ends = slices.SortedFunc(slices.Values(msg.Objects), byName), msg.Ends
	if len(r.objects) == 0 {
		delete(h.releases, msg.Module)
	}
	for _, o := range r.objects {
		h.owners[o] = msg.Module
		_, known := h.states[o]
		switch present := h.program.ReleaseWatch.Present(o); {
		case !present && r.ends[o]: // it has ended, or its watch is late
		case !present && !known && msg.Wrote:
			h.objectGone(ctx, o)
		case !known || msg.Wrote: // until it is read
			h.learn(o, helm.Health{State: view.ObjectUnknown, Message: unread})
		}
	}
	for _, o := range before {
		if h.owners[o] == "" && !h.program.ReleaseWatch.Present(o) {
			delete(h.states, o)
		}
	}
	if h.report(msg.Module); msg.Wrote {
		h.assess(r.objects)
	}
}

// look has the healer look at what is gone.
func (h *healer) look(ctx actor.Context) {
	if !h.due {
		h.due = true
		h.program.SendLater(ctx, h.delay, healDue{})
	}
}

// healDue heals the modules of which objects are gone, in their order: one cause, such as a namespace or a definition
// that is deleted, may concern several, and a later module may need what an earlier one brings. All wait for objects
// that are being deleted: with a definition, its objects go first.
func (h *healer) healDue(ctx actor.Context) {
	if h.due = false; h.ctx.Err() != nil {
		return
	}
	deleted := false
	for _, known := range h.states {
		deleted = deleted || known.State == view.ObjectTerminating && time.Since(known.Since) < deletionDelays*h.delay
	}
	for _, name := range *h.program.Enabled.Load() {
		r := h.releases[name]
		if r == nil || len(r.gone) == 0 {
			continue
		}
		switch status, _ := h.program.Inspector.Status(modulePath + name).(view.ModuleStatus); {
		case status.Maintenance != "", status.Phase == view.Suspended, status.Phase == view.Deleting:
			clear(r.gone) // the next run finds what is absent
		case deleted, status.Phase != view.Ready: // its run may apply them again
			h.look(ctx)
		default:
			h.heal(ctx, name, r)
		}
	}
}

// heal queues a run of the module if something that was reported is not surely back. While the API server is away, or
// for a kind that may not be watched, that is unknown: Helm looks.
func (h *healer) heal(ctx actor.Context, module string, r *releaseState) {
	var absent []string
	for _, o := range r.objects {
		if r.gone[o] && !h.program.ReleaseWatch.Exists(o) {
			absent = append(absent, o.String())
		}
	}
	if len(absent) > 0 && !r.heals.Allow() {
		h.look(ctx)
		return
	}
	if clear(r.gone); len(absent) == 0 {
		return
	}
	for _, o := range absent {
		h.program.Metrics.absent.WithLabelValues(module, o).Inc()
	}
	cause := messages.Cause{Activation: messages.ByAbsence, Detail: messages.Few(1, absent)}
	h.program.Log.Warn("release is not as the module left it; the module runs again", "module", module, "cause", cause)
	h.program.Enqueue(ctx, false, h.program.NewTask(module, messages.RunModule{}, cause))
}

func (h *healer) publish(ctx actor.Context) {
	status := view.HealerStatus{Objects: len(h.owners), Releases: map[string]*view.Health{}}
	for name, r := range h.releases {
		if status.Releases[name] = r.health; len(r.gone) > 0 {
			status.Incomplete = append(status.Incomplete, name)
		}
	}
	slices.Sort(status.Incomplete) // a few of hundreds
	h.program.Inspector.Publish(ctx.Self(), status)
}

// report sums up how the objects of a release are doing, for all that show it.
func (h *healer) report(module string) {
	r := h.releases[module]
	if r == nil {
		return
	}
	if now := h.sum(r.objects); !reflect.DeepEqual(now, r.health) {
		r.health = now
		h.program.Changed.Note(module)
	}
}

// shownUnhealthy bounds the unhealthy objects that a module shows.
const shownUnhealthy = 20

// sum is the health of objects; what has ended is not known, and has no part in it. Of those that are on their way the
// one that has been so for longest comes first, after those that have failed.
func (h *healer) sum(objects []helm.Object) *view.Health {
	sum := &view.Health{}
	for _, o := range objects {
		known, ok := h.states[o]
		switch {
		case !ok:
			continue
		case known.State == view.ObjectCurrent:
			sum.Current++
		default:
			sum.Unhealthy = append(sum.Unhealthy, known)
		}
		sum.All = append(sum.All, known)
	}
	if sum.Objects = len(sum.All); sum.Objects == 0 {
		return nil
	}
	severity := map[string]int{view.ObjectFailed: -1, view.ObjectUnknown: 1}
	slices.SortStableFunc(sum.Unhealthy, func(a, b view.ObjectHealth) int {
		return cmp.Or(severity[a.State]-severity[b.State], a.Since.Compare(b.Since))
	})
	sum.Unhealthy = slices.Clip(sum.Unhealthy[:min(len(sum.Unhealthy), shownUnhealthy)])
	return sum
}
