package actors

import (
	"cmp"
	"slices"

	"addon-operator/messages"
)

// This file answers the questions of debug pages.

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
