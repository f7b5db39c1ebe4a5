package testkit

import (
	"fmt"
	"slices"
	"strings"

	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// Played is what was left after a script, before its operator was stopped.
type Played struct {
	Trace string
	// Left is what a person would find: releases with their values, the ConfigMap, and the phases of modules that are
	// not disabled; one whose directory is gone has no actor after a start. How it came to that, and when, is not in
	// it.
	Left string
	// Converged: the operator was ready, and no queue had a task.
	Converged bool
	// Problems are what must not be in any script: messages without a handler, two
	// things at the same time that exclude each other, actors that outlive the stop.
	Problems []string

	unusedCrashes []string // crashes of the script that did not happen
}

// look fills in what is there now.
func (r *Played) look(p *player) {
	phases, queues := map[string]view.Phase{}, map[string]string{}
	var converge view.ConvergeStatus
	var incomplete []string
	p.Visit(func(n *supervisor.Node) {
		name := n.Path[strings.LastIndex(n.Path, "/")+1:]
		switch status := n.Status.(type) {
		case view.ModuleStatus:
			if status.Phase != view.Disabled {
				phases[name] = status.Phase
			}
		case view.QueueStatus:
			if status.Length > 0 {
				queues[name] = status.String()
			}
		case view.ConvergeStatus:
			converge = status
		case view.MonitorsStatus:
			for _, b := range status.Bindings {
				if b.Held > 0 || b.Phase != "complete" {
					text := fmt.Sprintf("%s %s/%s is %s and holds %d", b.Owner, b.Hook, b.Binding, b.Phase, b.Held)
					incomplete = append(incomplete, text)
				}
			}
		}
	})
	slices.Sort(incomplete)
	r.Converged = converge.Ready && len(queues) == 0
	r.Left = fmt.Sprintf("converge: %s, ready %t, enabled %q\nphases: %v\nqueues: %v\nbindings: %q\n",
		converge.Phase, converge.Ready, converge.Enabled, phases, queues, incomplete)
	r.Left += fmt.Sprintf("releases: %v\nConfigMap: %v\n", p.releases.deployedValues(), p.Cluster.ConfigMap.Data())
}
