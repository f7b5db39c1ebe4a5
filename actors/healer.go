package actors

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/helm"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// healer receives which objects of releases are gone, and queues runs of their modules (G15, H13). Watching is the
// business of helm; known here is to which module an object belongs. A second after a report it looks at what the
// module has published: when its runs are over, and the object is still absent, the module runs again. While a run is
// in progress, Helm may still apply the object, so the healer looks again later. Helm itself finds what is absent.
type healer struct {
	program *program
	log     *slog.Logger
	ctx     context.Context // ends with the program

	releases map[string]*releaseState // by module
	// owners are the modules of an object, by object; two charts may have the same one.
	owners map[helm.Object][]string
	states objectStates
	seen   atomic.Pointer[objectNews] // what the watches have reported last, until objectsSeen is handled
	timer  *time.Timer                // for the release that is due first
	// assess makes the watches report the health of these objects again.
	assess func(written []helm.Object)
}

// releaseState is what the healer stores about the release of a module, from its first run until it is switched off.
type releaseState struct {
	shownRelease
	ends    map[helm.Object]bool // those of objects that end by themselves; true: they have
	applied time.Time            // when objects became its objects
	gone    map[helm.Object]bool // reported since Helm has applied them, or since the last heal
	due     time.Time            // when gone is looked at; zero for never
}

// shownRelease is what is shown of it. What it points to is replaced, never changed: it is published.
type shownRelease struct {
	objects []helm.Object
	health  *view.Health
	heals   map[helm.Object]recentHeals
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

// healDue is sent by the timer.
type healDue struct{}

// newHealer makes the actor. Watches end with ctx.
func newHealer(ctx context.Context, p *program) *healer {
	return &healer{
		program: p, log: p.Log, ctx: ctx, releases: map[string]*releaseState{}, owners: map[helm.Object][]string{},
		states: objectStates{}, assess: func([]helm.Object) {},
	}
}

// Receive implements actor.Actor.
func (h *healer) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		h.watch(ctx.Self())
	case objectsSeen:
		h.objectsSeen(ctx)
	case releaseApplied:
		h.releaseApplied(ctx, msg)
	case healDue:
		h.healDue(ctx)
	default:
		unhandled(ctx, h.log)
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
		Gone:   func(o helm.Object) { h.note(self, objectNews{object: o, gone: true}) },
		Health: func(o helm.Object, now helm.Health) { h.note(self, objectNews{object: o, health: now}) },
	})
}

// objectGone notes that an object is gone, which is looked at a moment later, or later still if the object is
// contested.
func (h *healer) objectGone(ctx actor.Context, o helm.Object) {
	for _, name := range h.owners[o] {
		r := h.releases[name]
		r.gone[o] = true
		if _, ends := r.ends[o]; ends {
			r.ends[o] = true
			continue
		}
		next := time.Now().Add(h.delay())
		if recent := r.heals[o]; recent.last.Add(recent.delay()).After(next) {
			next = recent.last.Add(recent.delay())
		}
		if r.due.IsZero() || next.Before(r.due) { // the others are healed with the one that waits least
			r.due = next
		}
	}
	h.arm(ctx)
}

// exists notes that an object of which there is news is back.
func (h *healer) exists(o helm.Object) {
	for _, name := range h.owners[o] {
		r := h.releases[name]
		delete(r.gone, o)
		if _, ends := r.ends[o]; ends {
			r.ends[o] = false
		}
	}
}

// releaseApplied takes over the objects of a release as Helm has just written it; without any the release is
// forgotten. A run waits for the answer: the health of its objects is published by then, and the module is not ready
// with that of before (H25).
func (h *healer) releaseApplied(ctx actor.Context, msg releaseApplied) {
	r := h.releases[msg.Module]
	if r == nil {
		r = &releaseState{gone: map[helm.Object]bool{}}
		r.heals = map[helm.Object]recentHeals{}
	}
	h.disown(msg.Module, r)
	before := r.objects
	if msg.Wrote || !slices.Equal(r.objects, msg.Objects) {
		r.applied = time.Now()
	}
	r.objects, r.ends = msg.Objects, maps.Clone(msg.Ends)
	for o := range r.ends { // what has just been written may have ended, too
		r.ends[o] = r.ends[o] || r.gone[o] && !h.program.ReleaseWatch.Present(o)
	}
	if h.releases[msg.Module] = r; len(msg.Objects) == 0 {
		delete(h.releases, msg.Module)
	}
	for _, o := range msg.Objects {
		h.owners[o] = append(h.owners[o], msg.Module)
	}
	if msg.Wrote {
		for _, o := range r.objects { // they are unknown until they are read again
			known := h.states[o]
			known.doubted = true
			h.states[o] = known
		}
		h.missing(ctx, before, r.objects)
	}
	h.report(msg.Module)
	if msg.Wrote {
		h.assess(r.objects)
	}
	if ctx.Sender() != nil {
		h.publish(ctx) // before the answer
		ctx.Respond(struct{}{})
	}
}

// missing looks at what is new in a release and not there: it may have gone before it was known whose it is.
func (h *healer) missing(ctx actor.Context, before, now []helm.Object) {
	if h.program.ReleaseWatch == nil {
		return
	}
	known := map[helm.Object]bool{}
	for _, o := range before {
		known[o] = true
	}
	for _, o := range now {
		if !known[o] && !h.program.ReleaseWatch.Present(o) {
			h.objectGone(ctx, o)
		}
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

// arm starts the timer for the release that is due first.
func (h *healer) arm(ctx actor.Context) {
	if h.timer != nil {
		h.timer.Stop()
	}
	var times []time.Time
	for _, r := range h.releases {
		if !r.due.IsZero() {
			times = append(times, r.due)
		}
	}
	if len(times) > 0 {
		h.timer = h.program.SendLater(ctx, time.Until(slices.MinFunc(times, time.Time.Compare)), healDue{})
	}
}

// healDue heals the modules whose time has come, in their order: one cause, such as a namespace or a definition that is
// deleted, may concern several, and a later module may need what an earlier one brings. Those whose time comes in a
// moment are healed with them, and all wait for objects that are being deleted: with a definition, its objects go
// first.
func (h *healer) healDue(ctx actor.Context) {
	if h.ctx.Err() != nil {
		return
	}
	enabled, now := *h.program.Enabled.Load(), time.Now()
	soon := now.Add(h.delay())
	waits := h.states.deleting(now) && !h.program.PromptReleaseWatch
	var due []string
	for name, r := range h.releases {
		switch {
		case r.due.IsZero(), r.due.After(soon):
		case waits:
			r.due = soon
		default:
			r.due, due = time.Time{}, append(due, name)
		}
	}
	slices.SortFunc(due, func(a, b string) int { return cmp.Compare(slices.Index(enabled, a), slices.Index(enabled, b)) })
	for _, name := range due {
		status, _ := h.program.Inspector.Status(modulePath + name).(view.ModuleStatus)
		switch r := h.releases[name]; {
		case !slices.Contains(enabled, name), status.Maintenance != "",
			status.Phase == view.Suspended, status.Phase == view.Deleting:
			clear(r.gone) // the next run finds what is absent
		case status.Phase == view.Ready:
			h.heal(ctx, name, r)
		default: // its run may apply them again
			r.due = now.Add(h.delay())
		}
	}
	h.arm(ctx)
}

// heal queues a run of the module if something that was reported is not surely back. While the API server is away, or
// for a kind that may not be watched, that is unknown: Helm looks.
func (h *healer) heal(ctx actor.Context, module string, r *releaseState) {
	var absent []helm.Object
	var names []string
	for _, o := range slices.SortedFunc(slices.Values(r.objects), compareObjects) {
		if _, ends := r.ends[o]; r.gone[o] && !ends && !h.program.ReleaseWatch.Exists(o) {
			absent, names = append(absent, o), append(names, o.String())
		}
	}
	clear(r.gone)
	if len(absent) == 0 {
		return
	}
	cause := messages.Cause{Activation: messages.ByAbsence, Detail: messages.Few(1, names)}
	h.log.Warn("release is not as the module left it; the module runs again", "module", module, "cause", cause)
	for _, o := range absent {
		h.healed(module, r, o)
	}
	h.program.Changed.Note(module)
	h.program.Enqueue(ctx, false, h.program.NewTask(module, messages.RunModule{}, cause))
}

func compareObjects(a, b helm.Object) int { return cmp.Compare(a.String(), b.String()) }

func (h *healer) publish(ctx actor.Context) {
	status, shown := view.HealerStatus{Objects: len(h.owners)}, map[string]shownRelease{}
	for name, r := range h.releases {
		shown[name] = r.shownRelease
		if !r.due.IsZero() {
			status.Incomplete = append(status.Incomplete, name)
		}
	}
	slices.Sort(status.Incomplete) // a few of hundreds
	watch := h.program.ReleaseWatch
	h.program.Inspector.Publish(ctx.Self(), supervisor.Live(func() fmt.Stringer {
		s := status
		s.Releases = map[string]view.ReleaseHealth{}
		s.Monitored = func() map[string][]view.MonitoredObject { return monitored(shown) }
		for name, r := range shown {
			s.Releases[name] = view.ReleaseHealth{Health: r.health, Contested: contested(r.heals, time.Now())}
		}
		if watch != nil {
			for _, k := range watch.WatchedKinds() {
				if k.Problem != "" {
					s.Problems = append(s.Problems, k.Resource+": "+k.Problem)
				}
			}
		}
		return s
	}))
}

// monitored are the objects of releases, sorted, because Helm's order of installation says nothing to people.
func monitored(shown map[string]shownRelease) map[string][]view.MonitoredObject {
	all := map[string][]view.MonitoredObject{}
	for name, r := range shown {
		for _, o := range slices.SortedFunc(slices.Values(r.objects), compareObjects) {
			all[name] = append(all[name], view.MonitoredObject{Kind: o.GVK.Kind, Namespace: o.Namespace, Name: o.Name})
		}
	}
	return all
}

// recentHeals are the heals of an object of a release. It is contested when another client, or a hook,
// deletes it again after each heal. Its heals then slow down: 5 s, 10 s … up to five minutes after the last one. When
// it has stayed for a quiet period after that, earlier heals do not count any more.
type recentHeals struct {
	times int
	last  time.Time
}

const (
	// contestedLongestDelay bounds the time between two heals of a contested object.
	contestedLongestDelay = 5 * time.Minute
	// quietPeriod is how long an object must stay, in addition to the delay of its next heal, until
	// earlier heals do not count any more.
	quietPeriod = time.Minute
)

func (l recentHeals) delay() time.Duration {
	return slowedDown(l.times, contestedLongestDelay)
}

func (l recentHeals) count(now time.Time) bool {
	return now.Before(l.last.Add(l.delay() + quietPeriod))
}

// sentence says that an object is contested.
func (l recentHeals) sentence(o helm.Object) string {
	return fmt.Sprintf("something else has deleted %s %d times, each time after the operator had applied it", o, l.times)
}

// healed is called when a run is queued that heals an object.
func (h *healer) healed(module string, r *releaseState, o helm.Object) {
	now := time.Now()
	r.heals = maps.Clone(r.heals)
	maps.DeleteFunc(r.heals, func(_ helm.Object, l recentHeals) bool { return !l.count(now) })
	recent := recentHeals{r.heals[o].times + 1, now}
	r.heals[o] = recent
	if recent.times > allowedTurns {
		text := recent.sentence(o)
		h.log.Warn("something else undoes each heal of a release: heals are slowed down",
			"module", module, "contested", text, "next", recent.delay())
		text = fmt.Sprintf("module %s: %s; it is healed at growing intervals", module, text)
		h.program.Notify(kube.Notice{Warning: true, Reason: "HealFight", Message: text})
	}
}

// contested has a sentence for each contested object.
func contested(heals map[helm.Object]recentHeals, now time.Time) (all []string) {
	for _, o := range slices.SortedFunc(maps.Keys(heals), compareObjects) {
		if l := heals[o]; l.times > allowedTurns && l.count(now) {
			all = append(all, l.sentence(o))
		}
	}
	return all
}

// The healer also knows how the objects of releases are doing, and shows it (H25). What the watches report of many
// objects at once is one message, in the order of the reports.
type (
	objectNews struct {
		object helm.Object
		gone   bool
		health helm.Health // of one that is not gone
		before *objectNews // reported before
	}
	objectsSeen struct{}
)

// shownUnhealthy bounds the unhealthy objects that a module shows, and its images.
const shownUnhealthy = 20

// objectStates has the health of all objects of releases that were read.
type objectStates map[helm.Object]assessed

// assessed is the health of an object.
type assessed struct {
	helm.Health
	since   time.Time // it is in this state, as far as this process has seen
	doubted bool      // Helm has written it since, so it is unknown until it is read again
}

// learn takes over the health of an object. One that stays in its state is in it since the beginning of that.
func (w objectStates) learn(o helm.Object, health helm.Health, now time.Time) {
	old := w[o]
	if old.State == health.State {
		now = old.since
	}
	w[o] = assessed{Health: health, since: now}
}

// deletionTime is how long heals wait for objects that are being deleted. After it, finalizers are taken to keep them.
const deletionTime = 10 * time.Second

// deleting reports whether an object has been marked for deletion a moment ago and is still there.
func (w objectStates) deleting(now time.Time) bool {
	for _, known := range w {
		if known.State == view.ObjectTerminating && now.Sub(known.since) < deletionTime {
			return true
		}
	}
	return false
}

// of sums up the health of the objects of a release, which was applied at that time.
func (w objectStates) of(objects []helm.Object, applied time.Time) *view.Health {
	if len(objects) == 0 {
		return nil
	}
	sum := &view.Health{Objects: len(objects)}
	for _, o := range objects {
		known := w[o]
		sum.Images = append(sum.Images, strings.Fields(known.Images)...)
		if known.State == "" || known.doubted {
			known = assessed{Health: helm.Health{State: view.ObjectUnknown, Message: "it does not exist, or has not been read yet"}, since: applied}
		}
		switch known.State {
		case view.ObjectCurrent:
			sum.Current++
			continue
		case view.ObjectFailed:
			sum.Failed++
		case view.ObjectUnknown:
			sum.Unknown++
		default:
			sum.InProgress++
		}
		sum.Unhealthy = append(sum.Unhealthy, view.ObjectHealth{Object: o.String(), State: known.State, Message: known.Message, Since: known.since})
	}
	slices.SortFunc(sum.Unhealthy, func(a, b view.ObjectHealth) int {
		return cmp.Or(cmp.Compare(severity(a.State), severity(b.State)), a.Since.Compare(b.Since), cmp.Compare(a.Object, b.Object))
	})
	slices.Sort(sum.Images)
	sum.Images = slices.Compact(sum.Images)
	sum.Images = slices.Clip(sum.Images[:min(len(sum.Images), shownUnhealthy)])
	sum.Unhealthy = slices.Clip(sum.Unhealthy[:min(len(sum.Unhealthy), shownUnhealthy)])
	return sum
}

// standing are the objects of a release, but for those that have ended.
func (r *releaseState) standing() []helm.Object {
	return slices.DeleteFunc(slices.Clone(r.objects), func(o helm.Object) bool { return r.ends[o] })
}

// severity orders states, the worst first. Of those that are on their way the one that has been so for longest decides.
func severity(state string) int {
	return map[string]int{view.ObjectFailed: -1, view.ObjectUnknown: 1}[state]
}

// note keeps what a watch reports until the healer looks at it.
func (h *healer) note(self *actor.PID, news objectNews) {
	for news.before = h.seen.Load(); !h.seen.CompareAndSwap(news.before, &news); {
		news.before = h.seen.Load()
	}
	if news.before == nil {
		h.program.Send(self, objectsSeen{})
	}
}

// objectsSeen learns what the watches have reported, and sums it up once for each module.
func (h *healer) objectsSeen(ctx actor.Context) {
	var seen []*objectNews
	for last := h.seen.Swap(nil); last != nil; last = last.before {
		seen = append(seen, last)
	}
	modules := map[string]bool{}
	for _, news := range slices.Backward(seen) {
		if news.gone {
			delete(h.states, news.object) // if a release still has it, it counts as unknown
			h.objectGone(ctx, news.object)
		} else {
			h.states.learn(news.object, news.health, time.Now())
			h.exists(news.object)
		}
		for _, name := range h.owners[news.object] {
			modules[name] = true
		}
	}
	h.report(slices.Collect(maps.Keys(modules))...)
}

// report sums up how the objects of releases are doing, for all that show it.
func (h *healer) report(modules ...string) {
	for _, name := range modules {
		r := h.releases[name]
		if r == nil || h.program.ReleaseWatch == nil {
			continue
		}
		if now := h.states.of(r.standing(), r.applied); !reflect.DeepEqual(now, r.health) {
			r.health = now
			h.program.Changed.Note(name)
		}
	}
}
