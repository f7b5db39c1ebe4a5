package converge

import (
	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/messages"
	"addon-operator/supervisor"
)

// diskChanged comes when files below the modules directories, or of global hooks, may have changed (P8). what differs
// from what is in force; it is empty for nothing.
type diskChanged struct{ what string }

// watch begins to watch the disk, if it is to be watched. That reads all directories, so it is a run. The disk is compared
// once more when it has begun, because the first discovery may be over by then.
func (c *converge) watch(ctx actor.Context) {
	c.program.Runs.Tree.Store(c.catalog.Tree)
	if c.program.Disk == nil {
		return
	}
	self := ctx.Self()
	look := func() { c.program.Send(self, diskChanged{c.program.Runs.Differs()}) }
	c.runs.Start(ctx, supervisor.Task{
		ID: "watch-disk", AllowFailure: true, Ended: func(actor.Context, supervisor.Outcome) {},
		Work: func(*supervisor.Run) (any, error) {
			c.program.Disk(c.ctx, look)
			look()
			return nil, nil
		},
	})
}

// diskChanged has a reload compare the disk with the tree in force, and put in force what fits. A discovery that failed
// may succeed now.
func (c *converge) diskChanged(ctx actor.Context, what string) {
	c.runs.RetryNow()
	if what != "" {
		c.log.Info("files have changed: all modules are discovered again", "what", what)
		c.reloads.request(ctx, messages.Cause{Activation: messages.ByFiles, Detail: what})
	}
}
