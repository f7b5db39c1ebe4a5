package hooks

import (
	"cmp"
	"fmt"
)

// readV0 reads a document of protocol v0 (C18, C19). Its bindings are always in queue main and have
// neither Synchronization nor snapshots (C20), so those fields keep their zero values. Contexts of
// v0 carry coordinates only, so nothing needs the objects (C22).
func (r *report) readV0(from written, config *Config) {
	for i, one := range from.Schedule {
		config.Schedules = append(config.Schedules, r.schedule(fmt.Sprintf("schedule[%d]", i), one))
	}
	for i, one := range from.OnKubernetesEvent {
		config.Kubernetes = append(config.Kubernetes, r.eventV0(fmt.Sprintf("onKubernetesEvent[%d]", i), one))
	}
}

func (r *report) eventV0(at string, from writtenBinding) KubernetesBinding {
	var changes []string // watch events for add, update and delete
	if from.Event != nil {
		changes = []string{}
	}
	for _, word := range from.Event {
		changes = append(changes, map[string]string{"add": Added, "update": Modified, "delete": Deleted}[word])
	}
	binding := KubernetesBinding{
		Binding:   Binding{Name: cmp.Or(from.Name, "onKubernetesEvent"), Queue: MainQueue, AllowFailure: bool(from.AllowFailure)},
		Selection: Selection{Kind: from.Kind, Labels: r.labels(at+".selector", from.Selector)},
		Filter:    r.filter(at, from.JQFilter),
		Events:    events(changes),
	}
	if from.ObjectName != "" {
		r.name(at+".objectName", from.ObjectName)
		binding.Names = []string{from.ObjectName}
	}
	switch namespaces := from.NamespaceSelector; {
	case !bool(namespaces.Any):
		binding.Namespaces = r.names(at+".namespaceSelector.matchNames", namespaces.MatchNames)
	case len(namespaces.MatchNames) > 0:
		r.warn(at+".namespaceSelector.matchNames", "is ignored because namespaceSelector.any is true")
	}
	return binding
}
