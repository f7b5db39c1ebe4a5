package hooks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// readV1 reads a document of protocol v1 and checks what its schema cannot (C10, C11, C15). Names
// of snapshots are resolved last, because a schedule may name a binding that follows it.
func (r *report) readV1(from written, config *Config) {
	config.Settings = Settings{
		ExecutionMinInterval: r.duration("settings.executionMinInterval", from.Settings.ExecutionMinInterval),
		ExecutionBurst:       from.Settings.ExecutionBurst,
		Timeout:              r.duration("settings.timeout", from.Settings.Timeout),
	}
	for i, one := range from.Schedule {
		at := fmt.Sprintf("schedule[%d]", i)
		schedule := r.schedule(at, one)
		schedule.Binding = r.binding(at, one, schedule.Name)
		config.Schedules = append(config.Schedules, schedule)
	}
	for i, one := range from.Kubernetes {
		config.Kubernetes = append(config.Kubernetes, r.kubernetes(fmt.Sprintf("kubernetes[%d]", i), one))
	}
	for i := range config.Schedules {
		r.resolveSnapshots(fmt.Sprintf("schedule[%d]", i), &config.Schedules[i].Binding, config.Kubernetes)
	}
	for i := range config.Kubernetes {
		r.resolveSnapshots(fmt.Sprintf("kubernetes[%d]", i), &config.Kubernetes[i].Binding, config.Kubernetes)
	}
}

// binding reads what schedules and kubernetes bindings have in common; name is the default.
func (r *report) binding(at string, from writtenBinding, name string) Binding {
	name = cmp.Or(from.Name, name)
	if strings.HasPrefix(from.Queue, ReservedQueues) {
		r.fail(at+".queue", "of binding %s is %q, but names that begin with %q are reserved for queues of the operator; give the queue another name", name, from.Queue, ReservedQueues)
	}
	return Binding{
		Name: name, Queue: cmp.Or(from.Queue, MainQueue), AllowFailure: bool(from.AllowFailure),
		Group: from.Group, Snapshots: once(from.IncludeSnapshotsFrom),
	}
}

func (r *report) kubernetes(at string, from writtenBinding) KubernetesBinding {
	orTrue := func(flag *bool) bool { return flag == nil || *flag }
	binding := KubernetesBinding{
		Binding: r.binding(at, from, string(OnKubernetes)),
		Selection: Selection{
			APIVersion: from.APIVersion,
			Kind:       from.Kind,
			Names:      r.names(at+".nameSelector.matchNames", from.NameSelector.MatchNames),
			Labels:     r.labels(at+".labelSelector", from.LabelSelector),
			Fields:     r.fields(at+".fieldSelector", from.FieldSelector, from.NameSelector.MatchNames),
		},
		Filter:                   r.filter(at, from.JQFilter),
		Events:                   r.eventsV1(at, from),
		ExecuteOnSynchronization: orTrue(from.ExecuteHookOnSynchronization),
		WaitForSynchronization:   orTrue(from.WaitForSynchronization),
		KeepFullObjects:          orTrue(from.KeepFullObjectsInMemory),
	}
	r.namespaces(at+".namespace", from, &binding.Selection)
	if !validAPIVersion(binding.APIVersion) {
		r.fail(at+".apiVersion", "must be v1 or group/version such as apps/v1, not %s", show(from.APIVersion))
	}
	if !binding.KeepFullObjects && from.JQFilter == "" {
		r.warn(at+".keepFullObjectsInMemory", "is false without a jqFilter, so the hook sees neither objects nor filter results")
	}
	// Only together with an explicit queue: in main, module runs and Synchronizations follow each
	// other anyway (X25).
	if !binding.WaitForSynchronization && (from.Queue == "" || from.Queue == MainQueue) {
		r.warn(at+".waitForSynchronization", "is false, which has no effect in queue %s: there, the Synchronization runs before the module; name another queue", MainQueue)
		binding.WaitForSynchronization = from.Queue == ""
	}
	if at += ".resynchronizationPeriod"; r.duration(at, from.ResynchronizationPeriod) > 0 { // hooks of other operators have it
		r.warn(at, "has no effect; a schedule with includeSnapshotsFrom shows the hook all objects again")
	}
	return binding
}

// eventsV1 prefers executeHookOnEvent over its old name.
func (r *report) eventsV1(at string, from writtenBinding) []string {
	if from.ExecuteHookOnEvent == nil {
		return events(from.WatchEvent)
	}
	if from.WatchEvent != nil {
		r.warn(at+".watchEvent", "is ignored because executeHookOnEvent is set, too")
	}
	return events(from.ExecuteHookOnEvent)
}

// namespaces reads the namespaces of a binding. A selector on their labels takes precedence over
// their names (C15).
func (r *report) namespaces(at string, from writtenBinding, selection *Selection) {
	names := from.Namespace.NameSelector.MatchNames
	selection.NamespaceLabels = r.labels(at+".labelSelector", from.Namespace.LabelSelector)
	if selection.NamespaceLabels == nil {
		selection.Namespaces = r.names(at+".nameSelector.matchNames", names)
	} else if len(names) > 0 {
		r.warn(at+".nameSelector.matchNames", "is ignored because namespace.labelSelector is set, too")
	}
}

// resolveSnapshots checks the names of includeSnapshotsFrom and adds the kubernetes bindings of the
// group (C11, C34). A name that is referenced must be unique, because it is a key in the context.
// all must be complete.
func (r *report) resolveSnapshots(at string, binding *Binding, all []KubernetesBinding) {
	for i, name := range binding.Snapshots {
		at := fmt.Sprintf("%s.includeSnapshotsFrom[%d]", at, i)
		switch count := countNamed(all, name); count {
		case 0:
			r.fail(at, "%q is not the name of a kubernetes binding of this hook", name)
		case 1:
		default:
			r.fail(at, "%q is the name of %d kubernetes bindings of this hook; give each a unique name", name, count)
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
			r.fail(at+".group", "has the member %q, which is the name of several kubernetes bindings of this hook; give each a unique name", member.Name)
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

// validAPIVersion reports whether a text is v1 or group/version. ParseGroupVersion alone accepts
// more, for example "/v1".
func validAPIVersion(apiVersion string) bool {
	if apiVersion == "" {
		return true
	}
	parsed, err := schema.ParseGroupVersion(apiVersion)
	return err == nil && parsed.Version != "" && parsed.String() == apiVersion // "/v1" has an empty group
}
