package monitors

import (
	"errors"
	"iter"

	"addon-operator/actors/work"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
)

// watches are the monitors of all bindings. Only the actor monitors uses them; the snapshots behind
// them are filled by package kube, at any moment.
type watches map[messages.WatchKey]*monitor

// of are the monitors of one hook.
func (w watches) of(owner, hook string) iter.Seq[*monitor] {
	return func(yield func(*monitor) bool) {
		for key, mon := range w {
			if key.Owner == owner && key.Binding.Hook == hook && !yield(mon) {
				return
			}
		}
	}
}

// shownBy are those that a Synchronization run shows. Watches that were stopped meanwhile are left
// out.
func (w watches) shownBy(owner string, s messages.Synchronization) iter.Seq[*monitor] {
	return func(yield func(*monitor) bool) {
		for _, binding := range s.Bindings {
			if mon := w[messages.WatchKey{Owner: owner, Binding: binding}]; mon != nil && !yield(mon) {
				return
			}
		}
	}
}

// complete reports whether all snapshots of a hook are complete now, or it has none.
func (w watches) complete(owner, hook string) bool {
	for mon := range w.of(owner, hook) {
		if !mon.complete() {
			return false
		}
	}
	return true
}

// filled reports whether all snapshots of a hook were complete once, and are not too large. It may
// hold while complete does not: for example when a permission is lost, which is not waited for
// (C17).
func (w watches) filled(owner, hook string) bool {
	for mon := range w.of(owner, hook) {
		if !mon.isFilled() {
			return false
		}
	}
	return true
}

// snapshots are those of all bindings of a hook, in their order, taken at one moment (C35), if they
// are all complete. An error is in the snapshots, and counts as complete, because waiting would not
// help.
func (w watches) snapshots(msg messages.GetSnapshots) (out messages.Snapshots, complete bool) {
	for i, b := range msg.Hook.Config.Kubernetes {
		mon := w[messages.WatchKey{Owner: msg.Owner, Binding: work.BindingKey(msg.Hook, i)}]
		switch {
		case mon == nil: // its module was disabled meanwhile, and the run is being cancelled
			return messages.Snapshots{Err: errors.New("the watches of this hook were stopped")}, true
		case !mon.complete():
			return out, false
		}
		objects, seq := mon.watch.Snapshot()
		if mon.watch.State().Phase == kube.TooLarge { // a message about that follows: it is empty, not complete
			return out, false
		}
		out.Bindings = append(out.Bindings, messages.BindingSnapshot{Name: b.Name, Objects: shownObjects(objects), Seq: seq, Instance: mon.instance})
	}
	return out, true
}

// shownObjects are objects in the form of package hooks, which does not know kube. The JSON is
// shared.
func shownObjects(objects []kube.Object) []hooks.Object {
	shown := make([]hooks.Object, len(objects))
	for i, o := range objects {
		shown[i] = hooks.Object{Object: o.Object, FilterResult: o.FilterResult}
	}
	return shown
}

// stop stops and forgets the watches that which selects.
func (w watches) stop(which func(messages.WatchKey, *monitor) bool) {
	for key, mon := range w {
		if which(key, mon) {
			mon.watch.Stop()
			delete(w, key)
		}
	}
}
