package actors

import (
	"cmp"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/hooks"
	"addon-operator/messages"
)

// This file answers the questions of debug pages.

// dumpSnapshots answers DumpSnapshots.
func (m *monitors) dumpSnapshots(ctx actor.Context, msg messages.DumpSnapshots) {
	dump := messages.SnapshotDump{}
	for key, mon := range m.watches {
		if key.Owner != msg.Owner || msg.Hook != "" && key.Binding.Hook != msg.Hook {
			continue
		}
		d := messages.BindingDump{BindingState: liveBinding{key, mon.binding, mon.watch, len(mon.held), mon.tooLarge}.state()}
		objects, _ := mon.watch.Snapshot()
		for _, o := range objects {
			d.Snapshot = append(d.Snapshot, hooks.Object{Object: o.Object, FilterResult: o.FilterResult})
		}
		dump.Bindings = append(dump.Bindings, d)
	}
	slices.SortFunc(dump.Bindings, func(a, b messages.BindingDump) int { return compareBindings(a.BindingState, b.BindingState) })
	ctx.Respond(dump)
}

func compareBindings(a, b messages.BindingState) int {
	return cmp.Or(cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Hook, b.Hook), cmp.Compare(a.Binding, b.Binding))
}

// monitored answers ListMonitored.
func (h *healer) monitored() messages.Monitored {
	out := messages.Monitored{}
	for name, p := range h.patients {
		var ids []string
		for _, o := range p.objects {
			id := o.GVK.Kind + "/" + o.Name
			if o.Namespace != "" {
				id = o.Namespace + "/" + id
			}
			ids = append(ids, id)
		}
		slices.Sort(ids)
		out[name] = ids
	}
	return out
}
