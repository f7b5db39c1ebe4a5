package healer

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/shared"
	"addon-operator/helm"
	"addon-operator/kube"
	"addon-operator/messages"
)

// recentHeals are the heals of one object that count. An object is contested when another client
// deletes it again after each heal. Its heals then slow down:
// 5 s, 10 s … up to five minutes after the last one. When it has stayed for a quiet period, earlier
// heals do not count any more.
type recentHeals struct {
	times int
	last  time.Time
}

const (
	// contestedFirstDelay and contestedLongestDelay bound the time between two heals of a contested object.
	contestedFirstDelay   = 5 * time.Second
	contestedLongestDelay = 5 * time.Minute
	// quietPeriod is how long an object must stay, in addition to the delay of its next heal, until
	// earlier heals do not count any more.
	quietPeriod = time.Minute
	// healNews is how often a new report may begin the delay of a heal again.
	healNews = 5
)

// contested reports whether another client undoes each heal of the object.
func (l recentHeals) contested() bool { return l.times > shared.AllowedTurns }

// delay is how long the next heal waits after the last one.
func (l recentHeals) delay() time.Duration {
	return shared.SlowedDown(l.times, contestedFirstDelay, contestedLongestDelay)
}

// nextHeal is the earliest time of the next heal: the time of the object that waits least. The others
// are healed with it, because a run applies all.
func (r *releaseState) nextHeal() time.Time {
	if len(r.goneInRun) > 0 {
		return time.Time{} // whether they are absent is found out first
	}
	var times []time.Time
	for o := range r.gone {
		var next time.Time
		if recent := r.heals.objects[o]; recent != nil {
			next = recent.last.Add(recent.delay())
		}
		times = append(times, next)
	}
	if len(times) == 0 {
		return time.Time{}
	}
	return slices.MinFunc(times, time.Time.Compare)
}

// healHistory has the recent heals of the release of a module.
type healHistory struct {
	program  *shared.Program
	module   string
	objects  map[helm.Object]*recentHeals
	reported []string // the contested objects, as they were sent to the module last
}

// healed is called when a run is queued that heals these objects.
func (l *healHistory) healed(ctx actor.Context, objects []helm.Object) {
	for _, o := range objects {
		recent := l.objects[o]
		if recent == nil {
			recent = &recentHeals{}
			l.objects[o] = recent
		}
		recent.times++
		recent.last = time.Now()
		if recent.contested() {
			text := describeContested(o, recent.times)
			l.program.Log.Warn("something else undoes each heal of a release: heals are slowed down", "module", l.module, "contested", text, "next", recent.delay())
			l.program.Notify(kube.Notice{Warning: true, Reason: "HealFight", Message: fmt.Sprintf("module %s: %s; it is healed at growing intervals", l.module, text)})
		}
		l.forgetLater(ctx, o)
	}
	l.report(ctx)
}

func describeContested(o helm.Object, times int) string {
	return fmt.Sprintf("something else has deleted %s %d times, each time after the operator had applied it", o, times)
}

// forgetLater starts the timer of the quiet period.
func (l *healHistory) forgetLater(ctx actor.Context, o helm.Object) {
	recent := l.objects[o]
	l.program.SendLater(ctx, recent.delay()+quietPeriod, quietPeriodOver{l.module, o, recent.times})
}

// forget makes the heals of an object not count any more.
func (l *healHistory) forget(ctx actor.Context, o helm.Object) {
	delete(l.objects, o)
	l.report(ctx)
}

// applied drops what is no part of the release any more.
func (l *healHistory) applied(ctx actor.Context, release []helm.Object) {
	maps.DeleteFunc(l.objects, func(o helm.Object, _ *recentHeals) bool { return !slices.Contains(release, o) })
	l.report(ctx)
}

// report sends the module its contested objects, if they differ from those it has.
func (l *healHistory) report(ctx actor.Context) {
	var contested []string
	for _, o := range slices.SortedFunc(maps.Keys(l.objects), compareObjects) {
		if recent := l.objects[o]; recent.contested() {
			contested = append(contested, describeContested(o, recent.times))
		}
	}
	if !slices.Equal(contested, l.reported) {
		l.reported = contested
		ctx.Send(l.program.Owner(l.module), messages.ObjectsContested{Objects: contested})
	}
}

// quietPeriodOver forgets the heals of an object if none came since the timer began and it is not gone again.
func (h *healer) quietPeriodOver(ctx actor.Context, msg quietPeriodOver) {
	r := h.releases[msg.module]
	if r == nil || r.heals.objects[msg.object] == nil || r.heals.objects[msg.object].times != msg.times {
		return
	}
	if r.life.phase != resting || r.gone[msg.object] || time.Since(r.ended) < quietPeriod {
		r.heals.forgetLater(ctx, msg.object)
		return
	}
	r.heals.forget(ctx, msg.object)
}
