package configmap

import (
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/kube"
	"addon-operator/messages"
)

// clusterWentBack notifies config that a watch has seen the API server go back.
//
// After a restore of etcd the cluster is as it was some time ago, and what the operator knows no
// longer holds (P14). Each watch finds that out by itself and reports the difference. What the
// operator has done since, it does again: when no further watch has reported it for backDelay, all
// modules are reloaded, and hooks are shown all their objects.
type clusterWentBack struct{ watch string }

// compareAgain comes when that was seen for the last time.
type compareAgain struct {
	watch string
	count int
}

// backDelay gathers the watches that see the same restore.
const backDelay = 3 * time.Second

func (c *config) clusterWentBack(ctx actor.Context, msg clusterWentBack) {
	c.wentBack++
	c.program.SendLater(ctx, backDelay, compareAgain{msg.watch, c.wentBack})
}

func (c *config) compareAgain(ctx actor.Context, msg compareAgain) {
	if msg.count != c.wentBack {
		return
	}
	c.report.notify(kube.Notice{Warning: true, Reason: "ClusterWentBack", Message: fmt.Sprintf("The API server has gone back to an earlier state, as after a restore of etcd (number of watches that noticed it: %d, last: %s): values, hooks and releases are compared again", msg.count, msg.watch)})
	c.wentBack = 0
	c.kept.known = false // what is kept has gone back, too (P3)
	c.log.Warn("the cluster has gone back to an earlier state: values, hooks and releases are compared again", "watches", msg.count)
	cause := messages.Cause{Activation: messages.ByWentBack}
	ctx.Send(c.program.PID(work.MonitorsPath), messages.ResyncAll{Cause: cause})
	ctx.Send(c.program.PID(work.ConvergePath), messages.RequestReload{Cause: cause})
}
