package monitors

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/shared"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// publish shows the bindings. It is called after every message, so it only collects pointers and
// small values; sorting and texts are left to those who look.
func (m *monitors) publish(ctx actor.Context) {
	all, waiting := make(liveBindings, 0, len(m.watches)), len(m.waiters.runs)
	for key, mon := range m.watches {
		all = append(all, mon.live(key))
	}
	m.program.Inspector.PublishLive(ctx.Self(), func() fmt.Stringer {
		s := view.MonitorsStatus{Waiting: waiting, Snapshots: all.snapshots}
		for _, b := range all {
			s.Bindings = append(s.Bindings, b.state())
		}
		slices.SortFunc(s.Bindings, compareBindings)
		return s
	})
}

// liveBindings are those of all hooks.
type liveBindings []liveBinding

// liveBinding is one binding at the time of the last message. Only watch may be used later: package
// kube lets any goroutine ask it for its state.
type liveBinding struct {
	key     messages.WatchKey
	binding hooks.KubernetesBinding
	watch   shared.Watch
	held    int
	// tooLarge stays while the watch is filled again, which is no news.
	tooLarge string
}

func (mon *monitor) live(key messages.WatchKey) liveBinding {
	return liveBinding{key, mon.binding, mon.watch, len(mon.held), mon.overflow}
}

// snapshots are what view.MonitorsStatus says.
func (l liveBindings) snapshots(owner, hook string) (all []view.Snapshot) {
	for _, b := range l {
		if b.key.Owner == owner && (hook == "" || b.key.Binding.Hook == hook) {
			objects, _ := b.watch.Snapshot()
			all = append(all, view.Snapshot{BindingState: b.state(), Objects: shownObjects(objects)})
		}
	}
	slices.SortFunc(all, func(a, b view.Snapshot) int { return compareBindings(a.BindingState, b.BindingState) })
	return all
}

func (b liveBinding) state() messages.BindingState {
	s := b.watch.State()
	if b.tooLarge != "" {
		s.Phase, s.Message = kube.TooLarge, b.tooLarge
	}
	return messages.BindingState{
		Owner: b.key.Owner, Hook: b.key.Binding.Hook, Binding: b.binding.Name, Queue: b.binding.Queue, Kind: b.binding.Kind,
		Phase: string(s.Phase), Message: s.Message, Objects: s.Objects, Held: b.held, FilterErrors: s.FilterErrors,
	}
}

// compareBindings orders bindings as pages list them; bindings of one name keep their order.
func compareBindings(a, b messages.BindingState) int {
	return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Hook, b.Hook), cmp.Compare(a.Binding, b.Binding))
}
