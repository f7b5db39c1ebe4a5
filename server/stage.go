package server

import (
	"fmt"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// stage describes what the operator does with all modules: it starts, reloads them, or waits for a
// cause. In a follower, overview replaces it by the name of the leader.
func stage(tree []*supervisor.Node, c view.ConvergeStatus) string {
	switch {
	case c.Waits != "":
		return "starting: " + c.Waits
	case c.Phase == view.ConvergeReloading:
		return fmt.Sprintf("reloading all modules, %s to do", view.Count(queueLength(tree, messages.MainQueue), "task"))
	case !c.Ready:
		return "starting"
	case c.HeldPurge != nil:
		return "converged, but a purge is held back"
	}
	return "converged"
}

// globalStatus is the status of the global hooks; the zero value before they have an actor.
func globalStatus(tree []*supervisor.Node) (status view.GlobalStatus) {
	walk(tree, func(n *supervisor.Node) {
		if s, ok := n.Status.(view.GlobalStatus); ok {
			status = s
		}
	})
	return status
}
