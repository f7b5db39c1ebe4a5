package testkit

import (
	"fmt"
	"strings"

	"addon-operator/helm"
	"addon-operator/helm/health"
)

// reportHealth reports how objects of releases are doing, as the watches do: current, unless the script says otherwise.
func (r *Releases) reportHealth(objects ...helm.Object) {
	for _, o := range objects {
		r.mu.Lock()
		report, now := r.news.Health, r.unhealthy[o]
		if now.State == "" {
			now.State = health.Current
		}
		known := r.reported[o] == now
		r.reported[o] = now
		r.mu.Unlock()
		if report != nil && !known {
			report(o, now)
		}
	}
}

// stepHealth: from now on an object of a release is in a state, in the words of kstatus, with a message.
func stepHealth(p *player, rest string) error {
	name, said, _ := strings.Cut(rest, " ")
	state, message, _ := strings.Cut(said, " ")
	switch health.State(state) {
	case health.Current, health.InProgress, health.Failed, health.Terminating, health.Unknown:
	default:
		return fmt.Errorf("%q is no state: want Current, InProgress, Failed, Terminating or Unknown", state)
	}
	o, r := objectNamed(name), p.releases
	r.mu.Lock()
	r.unhealthy[o] = health.Health{State: health.State(state), Message: message}
	r.mu.Unlock()
	r.reportHealth(o)
	return nil
}
