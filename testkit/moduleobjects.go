package testkit

import (
	"context"
	"fmt"
	"strings"

	"addon-operator/actors/scenario"
	"addon-operator/kube"
)

// moduleObjects are the objects of kind Module: those of package kube, in the API server in memory, with a trace. They
// outlive the operator.
type moduleObjects struct {
	*kube.ModuleObjects
	*outside
	news *lateNews
}

// Watch implements shared.ModuleObjects. Its news wait for their turn.
func (m *moduleObjects) Watch(ctx context.Context, notify func(kube.ModuleNews)) {
	m.ModuleObjects.Watch(ctx, func(news kube.ModuleNews) {
		m.sched.later("module news", func() { m.news.deliver(func() { notify(news) }) })
	})
}

// Create implements shared.ModuleObjects.
func (m *moduleObjects) Create(ctx context.Context, name string, suspend bool) (kube.ModuleObject, error) {
	r := reference(name)
	there := m.Cluster.Server.Object(r.APIVersion, r.Kind, r.Namespace, r.Name) != nil
	made, err := m.ModuleObjects.Create(ctx, name, suspend)
	if err == nil && !there {
		m.Trace.Add("object %s: created", name)
	}
	return made, err
}

// Apply implements shared.ModuleObjects.
func (m *moduleObjects) Apply(ctx context.Context, name string, status kube.ModuleStatus) (kube.ModuleObject, error) {
	if err := m.act(ctx, faultOfModules, "", ""); err != nil {
		return kube.ModuleObject{}, err
	}
	written, err := m.ModuleObjects.Apply(ctx, name, status)
	if err == nil {
		m.Trace.Add("object %s: %s", name, shown(status))
	}
	return written, err
}

// Delete implements shared.ModuleObjects.
func (m *moduleObjects) Delete(ctx context.Context, read kube.ModuleObject) error {
	err := m.ModuleObjects.Delete(ctx, read)
	if err == nil {
		m.Trace.Add("object %s: deleted", read.Name)
	}
	return err
}

// shown is what a trace shows of a status: the phase, the conditions that hold, and of Ready also
// why it does not.
func shown(s kube.ModuleStatus) string {
	text := s.Phase
	for _, c := range s.Conditions {
		if c.Type == "Ready" || c.Status == "True" {
			text += fmt.Sprintf(", %s %s", c.Type, c.Status)
		}
		if c.Type == "Ready" {
			text += fmt.Sprintf(" %s: %s", c.Reason, c.Message)
		}
	}
	if handled := strings.Trim(s.LastHandledRequestedAt+" "+s.LastHandledRetryRequestedAt, " "); handled != "" {
		text += ", handled " + handled
	}
	return text
}

// reference names an object.
func reference(name string) scenario.Reference {
	return scenario.ParseReference("Module " + scenario.Namespace + "/" + name)
}

// annotateModule annotates an object as a person does: NAME TEXT. One that does not exist is created, and belongs to the
// person: it is not marked as the operator's.
func annotateModule(annotation string) step {
	return func(p *player, rest string) error {
		name, text, _ := strings.Cut(rest, " ")
		return p.Cluster.Set(reference(name), text, "metadata", "annotations", annotation)
	}
}

// suspendModule does the same with spec.suspend: NAME [false].
func suspendModule(p *player, rest string) error {
	name, text, _ := strings.Cut(rest, " ")
	return p.Cluster.Set(reference(name), text != "false", "spec", "suspend")
}
