package hooks

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// readV1 reads a document of protocol v1 and checks what its schema cannot (C10, C11, C15). Names
// of snapshots are resolved last, because a schedule may name a binding that follows it.
func readV1(document place, config *Config) {
	config.Settings = readSettings(document.at("settings"))
	schedules := document.at(string(OnSchedule)).each()
	for _, p := range schedules {
		schedule := readSchedule(p)
		schedule.Binding = readBinding(p, schedule.Name)
		config.Schedules = append(config.Schedules, schedule)
	}
	monitors := document.at(string(OnKubernetes)).each()
	for _, p := range monitors {
		config.Kubernetes = append(config.Kubernetes, readKubernetes(p))
	}
	for i, p := range schedules {
		resolveSnapshots(p, &config.Schedules[i].Binding, config.Kubernetes)
	}
	for i, p := range monitors {
		resolveSnapshots(p, &config.Kubernetes[i].Binding, config.Kubernetes)
	}
}

func readSettings(p place) Settings {
	burst, _ := p.at("executionBurst").number()
	return Settings{
		ExecutionMinInterval: readDuration(p.at("executionMinInterval")),
		ExecutionBurst:       int(burst),
		Timeout:              readDuration(p.at("timeout")),
	}
}

// readBinding reads what schedules and kubernetes bindings have in common; name is the default.
func readBinding(p place, name string) Binding {
	if queue := p.at("queue"); strings.HasPrefix(queue.text(), ReservedQueues) {
		queue.fail("of binding %s is %q, but names that begin with %q are reserved for queues of the operator; give the queue another name", p.at("name").textOr(name), queue.text(), ReservedQueues)
	}
	return Binding{
		Name:         p.at("name").textOr(name),
		Queue:        p.at("queue").textOr(MainQueue),
		AllowFailure: p.at("allowFailure").flagOr(false),
		Group:        p.at("group").text(),
		Snapshots:    p.at("includeSnapshotsFrom").texts(),
	}
}

func readKubernetes(p place) KubernetesBinding {
	apiVersion := p.at("apiVersion")
	binding := KubernetesBinding{
		Binding: readBinding(p, string(OnKubernetes)),
		Selection: Selection{
			APIVersion: apiVersion.text(),
			Kind:       p.at("kind").text(),
			Names:      objectNames(p.at("nameSelector").at("matchNames")),
			Labels:     labelSelector(p.at("labelSelector"), "operator"),
			Fields:     fieldSelector(p.at("fieldSelector")),
		},
		Filter:                   readFilter(p.at("jqFilter")),
		Events:                   readEvents(p),
		ExecuteOnSynchronization: p.at("executeHookOnSynchronization").flagOr(true),
		WaitForSynchronization:   readWait(p),
		KeepFullObjects:          p.at("keepFullObjectsInMemory").flagOr(true),
	}
	readNamespaces(p.at("namespace"), &binding.Selection)
	readResynchronization(p)
	checkNames(p)
	if !validAPIVersion(binding.APIVersion) {
		apiVersion.fail("must be v1 or group/version such as apps/v1, not %s", show(apiVersion.value))
	}
	if !binding.KeepFullObjects && binding.Filter == nil && !p.at("jqFilter").present() {
		p.at("keepFullObjectsInMemory").warn("is false without a jqFilter, so the hook sees neither objects nor filter results")
	}
	return binding
}

// readEvents prefers executeHookOnEvent over its old name. An absent list means all events, an
// empty one none.
func readEvents(p place) []string {
	events, old := p.at("executeHookOnEvent"), p.at("watchEvent")
	if old.present() {
		if events.present() {
			old.warn("is ignored because executeHookOnEvent is set, too")
		} else {
			events = old
		}
	}
	if !events.present() {
		return []string{Added, Modified, Deleted}
	}
	return events.texts()
}

// readWait honours false only together with an explicit queue: in main, module runs and
// Synchronizations follow each other anyway (X25).
func readWait(p place) bool {
	at := p.at("waitForSynchronization")
	if at.flagOr(true) {
		return true
	}
	queue := p.at("queue").text()
	if queue == "" || queue == MainQueue {
		at.warn("is false, which has no effect in queue %s: there, the Synchronization runs before the module; name another queue", MainQueue)
	}
	return queue == ""
}

// readResynchronization accepts what hooks of other operators have.
func readResynchronization(p place) {
	if at := p.at("resynchronizationPeriod"); readDuration(at) > 0 {
		at.warn("has no effect; a schedule with includeSnapshotsFrom shows the hook all objects again")
	}
}

// readNamespaces reads the namespaces of a binding. A selector on their labels takes precedence
// over their names (C15).
func readNamespaces(p place, selection *Selection) {
	matchNames := p.at("nameSelector").at("matchNames")
	selection.NamespaceLabels = labelSelector(p.at("labelSelector"), "operator")
	if selection.NamespaceLabels == nil {
		selection.Namespaces = objectNames(matchNames)
	} else if len(matchNames.texts()) > 0 {
		matchNames.warn("is ignored because namespace.labelSelector is set, too")
	}
}

// resolveSnapshots checks the names of includeSnapshotsFrom and adds the kubernetes bindings of the
// group (C11, C34). A name that is referenced must be unique, because it is a key in the context.
// all must be complete.
func resolveSnapshots(p place, binding *Binding, all []KubernetesBinding) {
	for _, at := range p.at("includeSnapshotsFrom").elements() {
		name := at.text()
		switch count := countNamed(all, name); {
		case name == "": // no string: the schema has said so
		case count == 0:
			at.fail("%q is not the name of a kubernetes binding of this hook%s", name, namesOf(all))
		case count > 1:
			at.fail("%q is the name of %d kubernetes bindings of this hook; give each a unique name", name, count)
		}
	}
	if binding.Group == "" {
		return
	}
	for _, member := range all {
		if member.Group != binding.Group {
			continue
		}
		if countNamed(all, member.Name) > 1 {
			p.at("group").fail("has the member %q, which is the name of several kubernetes bindings of this hook; give each a unique name", member.Name)
		}
		if !slices.Contains(binding.Snapshots, member.Name) {
			binding.Snapshots = append(binding.Snapshots, member.Name)
		}
	}
}

func countNamed(all []KubernetesBinding, name string) int {
	count := 0
	for _, binding := range all {
		if binding.Name == name {
			count++
		}
	}
	return count
}

// namesOf lists the names that could have been meant.
func namesOf(all []KubernetesBinding) string {
	if len(all) == 0 {
		return ", which has none"
	}
	return "; there are " + strings.Join(bindingNames(all), ", ")
}

// validAPIVersion reports whether a text is v1 or group/version. ParseGroupVersion alone accepts
// more, for example "/v1".
func validAPIVersion(apiVersion string) bool {
	if apiVersion == "" {
		return true
	}
	parsed, err := schema.ParseGroupVersion(apiVersion)
	return err == nil && parsed.Version != "" && parsed.String() == apiVersion // "/v1" has an empty group
}
