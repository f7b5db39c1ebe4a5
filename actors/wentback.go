package actors

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/hooks"
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

// resyncAll asks monitors to show hooks all objects that they watch.
type resyncAll struct{ cause messages.Cause }

// backDelay gathers the watches that see the same restore.
const backDelay = 3 * time.Second

func (c *config) clusterWentBack(ctx actor.Context, msg clusterWentBack) {
	c.wentBack++
	self, again := ctx.Self(), compareAgain{msg.watch, c.wentBack}
	time.AfterFunc(backDelay, func() { c.program.Send(self, again) })
}

func (c *config) compareAgain(ctx actor.Context, msg compareAgain) {
	if msg.count != c.wentBack {
		return
	}
	c.report.notify(kube.Notice{Warning: true, Reason: "ClusterWentBack", Message: fmt.Sprintf("The API server has gone back to an earlier state, as after a restore of etcd (number of watches that noticed it: %d, last: %s): values, hooks and releases are compared again", msg.count, msg.watch)})
	c.wentBack = 0
	c.kept.known = false // what is kept has gone back, too (P3)
	if c.report.standby {
		return
	}
	c.log.Warn("the cluster has gone back to an earlier state: values, hooks and releases are compared again", "watches", msg.count)
	cause := messages.Cause{Activation: messages.ByWentBack}
	ctx.Send(c.program.PID(monitorsPath), resyncAll{cause})
	ctx.Send(c.program.PID(convergePath), messages.ReloadModules{Cause: cause})
}

// resyncAll queues a Synchronization of each hook that had one, in the order in which their watches
// were started: global hooks before modules, and these in their order. Like resync, it comes on top
// of the events.
func (m *monitors) resyncAll(ctx actor.Context, cause messages.Cause) {
	started := func(a, b messages.WatchKey) int {
		return cmp.Compare(m.watches[a].instance, m.watches[b].instance)
	}
	seen := map[hookKey]bool{}
	for _, key := range slices.SortedFunc(maps.Keys(m.watches), started) {
		mon := m.watches[key]
		if o := (hookKey{key.Owner, mon.hook.Name}); mon.phase == open && !seen[o] {
			seen[o] = true
			m.resyncHook(ctx, key.Owner, mon.hook, cause)
		}
	}
}

func (m *monitors) resyncHook(ctx actor.Context, owner string, hook hooks.Hook, cause messages.Cause) {
	for _, w := range work.Synchronizations(hook) {
		w.Again = true
		t := m.program.task(owner, w, cause)
		t.Queue = hook.Config.Kubernetes[w.Bindings[0]].Queue
		m.program.enqueue(ctx, false, t)
	}
}
