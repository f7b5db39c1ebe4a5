package hooks

import "strings"

// readV0 reads a document of protocol v0 (C18, C19). Its bindings are always in queue main and have
// neither Synchronization nor snapshots (C20), so those fields keep their zero values.
func readV0(document place, config *Config) {
	for _, p := range document.at(string(OnSchedule)).each() {
		schedule := readSchedule(p)
		schedule.AllowFailure = flagV0(p.at("allowFailure"))
		config.Schedules = append(config.Schedules, schedule)
	}
	for _, p := range document.at("onKubernetesEvent").each() {
		config.Kubernetes = append(config.Kubernetes, readEventV0(p))
	}
}

func readEventV0(p place) KubernetesBinding {
	binding := KubernetesBinding{
		Binding: Binding{
			Name:         p.at("name").textOr("onKubernetesEvent"),
			Queue:        MainQueue,
			AllowFailure: flagV0(p.at("allowFailure")),
		},
		Selection: Selection{
			Kind:   p.at("kind").text(),
			Labels: labelSelector(p.at("selector"), "operation", "operator"),
		},
		Filter: readFilter(p.at("jqFilter")),
		Events: eventsV0(p.at("event")),
		// Contexts of v0 carry coordinates only, so nothing needs the objects (C22).
		KeepFullObjects: false,
	}
	if name := p.at("objectName"); name.text() != "" {
		checkName(name)
		binding.Names = []string{name.text()}
	}
	namespaces := p.at("namespaceSelector")
	matchNames := namespaces.at("matchNames")
	switch anywhere := flagV0(namespaces.at("any")); {
	case !anywhere:
		binding.Namespaces = objectNames(matchNames)
	case len(matchNames.texts()) > 0:
		matchNames.warn("is ignored because namespaceSelector.any is true")
	}
	return binding
}

// eventsV0 translates the events of v0 (add, update, delete) into watch events. An absent list
// means all of them.
func eventsV0(p place) []string {
	if !p.present() {
		return []string{Added, Modified, Deleted}
	}
	events := []string{}
	for _, word := range p.texts() {
		for _, event := range []string{Added, Modified, Deleted} {
			if resourceEvent(event) == word {
				events = append(events, event)
			}
		}
	}
	return events
}

// flagV0 accepts yes, no, on and off in addition to true and false, also in quotes (C21, X32).
func flagV0(p place) bool {
	switch strings.ToLower(p.text()) {
	case "yes", "on", "true":
		return true
	}
	return p.flagOr(false)
}
