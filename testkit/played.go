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
	// Phases of modules, by name, but for those that are disabled: one whose directory is gone has no actor after a start; tasks in queues that are not empty; what converge and
	// monitors say about themselves. All are empty when the operator did not run.
	Phases   map[string]view.Phase
	Queues   map[string]string
	Converge view.ConvergeStatus
	Monitors view.MonitorsStatus
	// Releases are the values of each release, as JSON.
	Releases  map[string]string
	ConfigMap map[string]string
	// Problems are what must not be in any script: messages without a handler, two
	// things at the same time that exclude each other, actors that outlive the stop.
	Problems []string

	unusedCrashes []string // crashes of the script that did not happen
}

// look fills in what is there now. It copies what the operator and later steps go on to change.
func (r *Played) look(p *player) {
	r.Phases, r.Queues = map[string]view.Phase{}, map[string]string{}
	p.Visit(r.lookAt)
	r.Releases = p.releases.deployedValues()
	r.ConfigMap = p.Cluster.ConfigMap.Data()
}

// lookAt takes what models need from the status of an actor.
func (r *Played) lookAt(n *supervisor.Node) {
	path := strings.TrimPrefix(n.Path, "operator/")
	switch status := n.Status.(type) {
	case view.ModuleStatus:
		if status.Phase != view.Disabled {
			r.Phases[strings.TrimPrefix(path, "module/")] = status.Phase
		}
	case view.QueueStatus:
		if status.Length > 0 {
			r.Queues[strings.TrimPrefix(path, "queue/")] = status.String()
		}
	case view.ConvergeStatus:
		r.Converge = status
	case view.MonitorsReporter:
		r.Monitors = status.Monitors()
	}
}

// Left is what a person would find after the play. How it came to that, and when, is not in it.
func (r *Played) Left() string {
	var incomplete []string
	for _, b := range r.Monitors.Bindings {
		if b.Held > 0 || b.Phase != "complete" {
			incomplete = append(incomplete, fmt.Sprintf("%s %s/%s is %s and holds %d", b.Owner, b.Hook, b.Binding, b.Phase, b.Held))
		}
	}
	slices.Sort(incomplete)
	return fmt.Sprintf("converge: %s, ready %t, enabled %q\nphases: %v\nqueues: %v\nbindings: %q\nreleases: %v\nConfigMap: %v\n",
		r.Converge.Phase, r.Converge.Ready, r.Converge.Enabled, r.Phases, r.Queues, incomplete, r.Releases, r.ConfigMap)
}
