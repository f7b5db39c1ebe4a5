package actors

import (
	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/kube"
	"addon-operator/messages"
)

// A change of global values starts a reload in progress again (F10). What changes more often
// than a reload takes would keep the last modules from ever being run. So a reload that was
// started again maxRestarts times is finished first, and then the next begins. As long as each
// reload is asked for the next one, none of them is started again.

// maxRestarts is how often a reload may be started again before it is finished first.
const maxRestarts = 3

// restarts is what converge knows of reloads that are asked for during a reload.
type restarts struct {
	count int // since a reload has last ended without another one being asked for
	// postponed is the latest cause of the reload that follows the one in progress; nil for none.
	postponed *messages.Cause
	told      bool
}

// postpones reports whether a reload must wait for the end of the one in progress.
func (c *converge) postpones(cause messages.Cause) bool {
	r := &c.restarts
	if r.count < maxRestarts || c.program.mainWaits.Load() { // then the one in progress cannot end
		return false
	}
	if r.postponed == nil {
		c.program.Metrics.Converge.Postponed(cause)
	}
	if !r.told {
		c.log.Warn("reloads of all modules are started again all the time: the one in progress is finished first, then the next begins; fix what changes so often", "restarts", r.count, "cause", cause)
		c.program.notify(kube.Notice{Warning: true, Reason: "ReloadPostponed", Message: "Reloads of all modules are started again all the time, so each is finished before the next begins. What changes so often is: " + cause.String()})
	}
	r.postponed, r.told = &cause, true
	return true
}

// beginPostponed asks for the reload that has waited for the end of another one.
func (c *converge) beginPostponed(ctx actor.Context) {
	next := c.restarts.postponed
	if next == nil {
		c.restarts = restarts{}
		return
	}
	c.requestReload(ctx, *next)
	c.restarts.postponed = nil
}
