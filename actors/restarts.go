package actors

import (
	"time"

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
	held      int // the reload that is held up by one of its steps now; 0 for none
	holds     int // how often one was held up
	due       int // the last of these at whose end the reload is to be given up
}

// heldReload is how long a reload that is postponed waits for one that is held up.
const heldReload = 30 * time.Second

// postpones reports whether a reload must wait for the end of the one in progress.
func (c *converge) postpones(ctx actor.Context, cause messages.Cause) bool {
	r := &c.restarts
	if r.count < maxRestarts || c.program.mainWaits.Load() || // then the one in progress cannot end
		r.held == c.reload && cause.First().Activation == messages.ByConfigMap {
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
	c.unlessHeld(ctx)
	return true
}

// reloadHeld is called when a step of a reload fails, or waits, and when none does any more. A reload that waits for its end must not wait for good.
func (c *converge) reloadHeld(ctx actor.Context, msg messages.ReloadHeld) {
	c.restarts.held = msg.Reload
	c.restarts.holds++
	c.unlessHeld(ctx)
}

// unlessHeld begins the reload that is postponed after a while, when the one in progress is held up.
func (c *converge) unlessHeld(ctx actor.Context) {
	r := &c.restarts
	if r.held != c.reload || r.postponed == nil || r.due == r.holds {
		return
	}
	r.due = r.holds
	self, due := ctx.Self(), postponedDue{c.reload, r.holds}
	time.AfterFunc(heldReload, func() { c.program.Send(self, due) })
}

// postponedDue says that it is a while since a reload was held up.
type postponedDue struct{ reload, holds int }

// postponedDue restarts a reload that is still held up.
func (c *converge) postponedDue(ctx actor.Context, msg postponedDue) {
	r := &c.restarts
	if msg.reload == c.reload && c.phase == reloading && r.postponed != nil && r.held == c.reload && r.holds == msg.holds {
		c.restart(ctx, *r.postponed)
	}
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
