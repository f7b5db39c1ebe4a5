package healer

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"addon-operator/actors/shared"
	"addon-operator/helm"
	"addon-operator/kube"
)

// healHistory are the recent heals of a release, by object. An object is contested when another client, or a hook,
// deletes it again after each heal. Its heals then slow down: 5 s, 10 s … up to five minutes after the last one. When
// it has stayed for a quiet period, earlier heals do not count any more.
type healHistory map[helm.Object]recentHeals

type recentHeals struct {
	times int
	last  time.Time // when it was healed, or Helm has applied it since
}

const (
	// contestedFirstDelay and contestedLongestDelay bound the time between two heals of a contested object.
	contestedFirstDelay   = 5 * time.Second
	contestedLongestDelay = 5 * time.Minute
	// quietPeriod is how long an object must stay, in addition to the delay of its next heal, until
	// earlier heals do not count any more.
	quietPeriod = time.Minute
)

func (l recentHeals) contested() bool { return l.times > shared.AllowedTurns }

func (l recentHeals) delay() time.Duration {
	return shared.SlowedDown(l.times, contestedFirstDelay, contestedLongestDelay)
}

// next is the earliest time of the next heal.
func (l recentHeals) next() time.Time { return l.last.Add(l.delay()) }

// forgotten is when it does not count any more.
func (l recentHeals) forgotten() time.Time { return l.next().Add(quietPeriod) }

// sentence says that an object is contested.
func (h healHistory) sentence(o helm.Object) string {
	return fmt.Sprintf("something else has deleted %s %d times, each time after the operator had applied it", o, h[o].times)
}

// healed is called when a run is queued that heals an object.
func (h *healer) healed(module string, history healHistory, o helm.Object) {
	recent := recentHeals{history[o].times + 1, time.Now()}
	history[o] = recent
	if recent.contested() {
		text := history.sentence(o)
		h.log.Warn("something else undoes each heal of a release: heals are slowed down",
			"module", module, "contested", text, "next", recent.delay())
		text = fmt.Sprintf("module %s: %s; it is healed at growing intervals", module, text)
		h.program.Notify(kube.Notice{Warning: true, Reason: "HealFight", Message: text})
	}
}

// applied drops what is no part of the release any more; the others must stay from now on.
func (h healHistory) applied(release []helm.Object, wrote bool) {
	for o, recent := range h {
		switch {
		case !slices.Contains(release, o):
			delete(h, o)
		case wrote:
			h[o] = recentHeals{recent.times, time.Now()}
		}
	}
}

// forgetOld drops the heals of objects that have stayed, and reports whether there were some.
func (h healHistory) forgetOld(now time.Time) bool {
	before := len(h)
	maps.DeleteFunc(h, func(_ helm.Object, l recentHeals) bool { return !now.Before(l.forgotten()) })
	return len(h) < before
}

// contested has a sentence for each contested object.
func (h healHistory) contested() (all []string) {
	for _, o := range slices.SortedFunc(maps.Keys(h), compareObjects) {
		if h[o].contested() {
			all = append(all, h.sentence(o))
		}
	}
	return all
}
