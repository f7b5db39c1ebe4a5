package actors

import (
	"context"
	"maps"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// keepTimeout bounds one write of the last valid content: others wait for config meanwhile.
// keepPause is the time between two attempts.
const (
	keepTimeout = 10 * time.Second
	keepPause   = time.Minute
)

// kept is what config knows of the last valid content that is kept over a restart (P3).
type kept struct {
	known bool // data is what is kept
	data  map[string]string
	// waits: the last attempt has failed, and the next one comes with keepAgain.
	waits bool
}

// keepAgain tells config to try once more to keep the last valid content.
type keepAgain struct{}

// keep writes what is in force where a restart finds it, when it is not there yet (P3).
func (c *config) keep(ctx actor.Context) {
	k := &c.state.kept
	if c.program.LastValid == nil || c.state.standby || k.waits || k.known && maps.Equal(k.data, c.state.known) {
		return
	}
	writing, cancel := context.WithTimeout(c.program.Writes, keepTimeout)
	defer cancel()
	if err := c.program.LastValid.Write(writing, c.state.known); err != nil {
		c.log.Warn("the last valid values cannot be kept, will retry; a restart with an invalid ConfigMap would end with exit code 1, or begin with older ones", "in", keepPause, "err", err)
		k.waits = true
		self := ctx.Self()
		time.AfterFunc(keepPause, func() { c.program.Send(self, keepAgain{}) })
		return
	}
	k.known, k.data = true, maps.Clone(c.state.known)
}
