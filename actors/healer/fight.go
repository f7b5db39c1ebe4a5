package healer

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/helm"
	"addon-operator/kube"
)

// fight is what the healer knows about an object that it has brought back lately. A client that
// deletes an object, or writes the records of a release, again after each heal fights with the
// operator. Heals of this object then slow down: 5 s, 10 s … up to five minutes after the last one.
// When it has stayed for a while, they are quick again.
type fight struct {
	times  int
	healed time.Time // the last time
}

// records stands for the records of a release among its objects.
var records helm.Object //nolint:gochecknoglobals // a constant

const (
	// fightFirstDelay and fightLongestDelay bound the time between two heals of an object.
	fightFirstDelay   = 5 * time.Second
	fightLongestDelay = 5 * time.Minute
	// peace is how long an object must stay, in addition to the delay of its next heal, until
	// earlier heals do not count any more.
	peace = time.Minute
	// healNews is how often a new report may begin the delay of a heal again.
	healNews = 5
)

// delay is how long the next heal waits after the last one.
func (f fight) delay() time.Duration {
	return shared.SlowedDown(f.times, fightFirstDelay, fightLongestDelay)
}

// truce is the earliest time of the next heal: the time of the object that waits least. The others
// are healed with it, because a run applies all.
func (p *patient) truce() time.Time {
	if len(p.doubtful) > 0 {
		return time.Time{} // whether they are absent is found out first
	}
	var ends []time.Time
	for _, o := range p.ailments() {
		var end time.Time
		if f := p.fights.objects[o]; f != nil {
			end = f.healed.Add(f.delay())
		}
		ends = append(ends, end)
	}
	if len(ends) == 0 {
		return time.Time{}
	}
	return slices.MinFunc(ends, time.Time.Compare)
}

// ailments are what the next heal is for.
func (p *patient) ailments() []helm.Object {
	all := slices.SortedFunc(maps.Keys(p.gone), compareObjects)
	if p.changed {
		all = append(all, records)
	}
	return all
}

// fights are those about the release of a module.
type fights struct {
	program *shared.Program
	module  string
	objects map[helm.Object]*fight
	told    []string // as they were sent to the module last
}

// healed is called when a run is queued that brings back what is gone.
func (l *fights) healed(ctx actor.Context, ailments []helm.Object) {
	for _, o := range ailments {
		f := l.objects[o]
		if f == nil {
			f = &fight{}
			l.objects[o] = f
		}
		f.times++
		f.healed = time.Now()
		if f.times > shared.AllowedTurns {
			text := describeFight(o, f.times)
			l.program.Log.Warn("something else undoes each heal of a release: heals are slowed down", "module", l.module, "fight", text, "next", f.delay())
			l.program.Notify(kube.Notice{Warning: true, Reason: "HealFight", Message: fmt.Sprintf("module %s: %s; it is healed at growing intervals", l.module, text)})
		}
		l.endLater(ctx, o)
	}
	l.tell(ctx)
}

func describeFight(o helm.Object, times int) string {
	if o == records {
		return fmt.Sprintf("something else has changed the records of the release %d times, each time after the operator had repaired them", times)
	}
	return fmt.Sprintf("something else has deleted %s %d times, each time after the operator had applied it", o, times)
}

// endLater starts the timer after which the fight may be over.
func (l *fights) endLater(ctx actor.Context, o helm.Object) {
	f := l.objects[o]
	l.program.SendLater(ctx, f.delay()+peace, fightOver{l.module, o, f.times})
}

// over forgets a fight.
func (l *fights) over(ctx actor.Context, o helm.Object) {
	delete(l.objects, o)
	l.tell(ctx)
}

// applied drops what is no part of the release any more.
func (l *fights) applied(ctx actor.Context, release []helm.Object) {
	maps.DeleteFunc(l.objects, func(o helm.Object, _ *fight) bool { return o != records && !slices.Contains(release, o) })
	l.tell(ctx)
}

// tell sends the module the fights that are slowed down now, if they differ from those it has.
func (l *fights) tell(ctx actor.Context) {
	var told []string
	for _, o := range slices.SortedFunc(maps.Keys(l.objects), compareObjects) {
		if f := l.objects[o]; f.times > shared.AllowedTurns {
			told = append(told, describeFight(o, f.times))
		}
	}
	if !slices.Equal(told, l.told) {
		l.told = told
		ctx.Send(l.program.Owner(l.module), work.Fought{Fights: told})
	}
}

// fightOver forgets a fight if nothing was healed since the timer began and nothing is gone again.
func (h *healer) fightOver(ctx actor.Context, msg fightOver) {
	p := h.patients[msg.module]
	if p == nil || p.fights.objects[msg.object] == nil || p.fights.objects[msg.object].times != msg.times {
		return
	}
	if p.life.phase != resting || slices.Contains(p.ailments(), msg.object) || time.Since(p.ended) < peace {
		p.fights.endLater(ctx, msg.object)
		return
	}
	p.fights.over(ctx, msg.object)
}
