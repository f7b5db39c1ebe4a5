package testkit

import (
	"cmp"
	"fmt"
	"strings"

	"addon-operator/helm"
	"addon-operator/messages/view"
)

// report reports the health of objects of releases, as the watches do: current, unless the script
// says otherwise, and only what has changed since the last report. It must not be called with the
// lock held.
func (w *watched) report(objects ...helm.Object) {
	for _, o := range objects {
		w.releases.mu.Lock()
		report, now := w.news.Health, w.unhealthy[o]
		now.State = cmp.Or(now.State, view.ObjectCurrent)
		known := w.reported[o] == now
		w.reported[o] = now
		w.releases.mu.Unlock()
		if report != nil && !known {
			report(o, now)
		}
	}
}

// stepHealth: from now on an object of a release is in a state, in the words of kstatus, with a
// message.
func stepHealth(p *player, rest string) error {
	name, said, _ := strings.Cut(rest, " ")
	state, message, _ := strings.Cut(said, " ")
	switch state {
	case view.ObjectCurrent, view.ObjectInProgress, view.ObjectFailed, view.ObjectTerminating, view.ObjectUnknown:
	default:
		return fmt.Errorf("%q is not a state: want Current, InProgress, Failed, Terminating or Unknown", state)
	}
	o, r := objectNamed(name), p.releases
	r.mu.Lock()
	r.watched.unhealthy[o] = helm.Health{State: state, Message: message}
	r.mu.Unlock()
	r.watched.report(o)
	return nil
}
