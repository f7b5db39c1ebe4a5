package healer

import (
	"cmp"
	"slices"

	"addon-operator/messages"
)

// monitored answers ListMonitored of debug pages: the objects of each release, sorted, because maps
// and Helm's order of installation say nothing to people.
func (h *healer) monitored() messages.Monitored {
	out := messages.Monitored{}
	for name, r := range h.releases {
		var objects []messages.MonitoredObject
		for _, o := range r.objects {
			objects = append(objects, messages.MonitoredObject{Group: o.GVK.Group, Kind: o.GVK.Kind, Namespace: o.Namespace, Name: o.Name})
		}
		slices.SortFunc(objects, func(a, b messages.MonitoredObject) int {
			return cmp.Or(cmp.Compare(a.String(), b.String()), cmp.Compare(a.Group, b.Group))
		})
		out[name] = objects
	}
	return out
}
