package testkit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/actors/scenario"
	"addon-operator/deploy"
	"addon-operator/kube"
	"addon-operator/kube/apiserver"
)

// moduleObjects are the objects of kind Module: those of package kube, in the API server in memory, with a trace, and
// what people do to them. They outlive the operator.
type moduleObjects struct {
	*kube.ModuleObjects
	cluster *scenario.Cluster
	trace   *scenario.Trace
	sched   *scheduler

	mu   sync.Mutex
	slow time.Duration // how long each write takes
	// crossed is what people do just before the next write of an object, so that its answer shows
	// it before the watch does.
	crossed map[string]func() error
}

// Watch implements shared.ModuleObjects. Its news wait for their turn.
func (m *moduleObjects) Watch(ctx context.Context, notify func(kube.ModuleNews)) {
	m.ModuleObjects.Watch(ctx, func(news kube.ModuleNews) { m.sched.later("module news", func() { notify(news) }) })
}

// Create implements shared.ModuleObjects.
func (m *moduleObjects) Create(ctx context.Context, name string, suspend bool) (kube.ModuleObject, error) {
	there := m.object(name) != nil
	made, err := m.ModuleObjects.Create(ctx, name, suspend)
	if err == nil && !there {
		m.trace.Add("object %s: created", name)
	}
	return made, err
}

// Apply implements shared.ModuleObjects.
func (m *moduleObjects) Apply(ctx context.Context, name string, status kube.ModuleStatus) (kube.ModuleObject, error) {
	m.mu.Lock()
	slow := m.slow
	m.mu.Unlock()
	time.Sleep(slow) // on virtual time
	if slow > 0 {
		m.sched.await("write of Module " + name)
	}
	if err := m.cross(name); err != nil {
		return kube.ModuleObject{}, err
	}
	written, err := m.ModuleObjects.Apply(ctx, name, status)
	if err == nil {
		m.trace.Add("object %s: %s", name, shown(status))
	}
	return written, err
}

// Delete implements shared.ModuleObjects.
func (m *moduleObjects) Delete(ctx context.Context, read kube.ModuleObject) error {
	if err := m.cross(read.Name); err != nil {
		return err
	}
	err := m.ModuleObjects.Delete(ctx, read)
	if err == nil {
		m.trace.Add("object %s: deleted", read.Name)
	}
	return err
}

func (m *moduleObjects) cross(name string) error {
	m.mu.Lock()
	change := m.crossed[name]
	delete(m.crossed, name)
	m.mu.Unlock()
	if change == nil {
		return nil
	}
	return change()
}

// shown is what a trace shows of a status: the phase, the conditions that hold, and of Ready also
// why it does not.
func shown(s kube.ModuleStatus) string {
	var text strings.Builder
	text.WriteString(s.Phase)
	for _, c := range s.Conditions {
		if c.Type == "Ready" || c.Status == "True" {
			fmt.Fprintf(&text, ", %s %s", c.Type, c.Status)
		}
		if c.Type == "Ready" {
			fmt.Fprintf(&text, " %s: %s", c.Reason, c.Message)
		}
	}
	if handled := strings.Trim(s.LastHandledRequestedAt+" "+s.LastHandledRetryRequestedAt, " "); handled != "" {
		text.WriteString(", handled " + handled)
	}
	return text.String()
}

// moduleAPI is that of the objects.
const moduleAPI = kube.ModuleGroup + "/v1alpha1"

// object is nil when there is none.
func (m *moduleObjects) object(name string) map[string]any {
	return m.cluster.Server.Object(moduleAPI, "Module", scenario.Namespace, name)
}

// change changes an object. One that does not exist is created, and belongs to a person: it
// is not marked as the operator's.
func (m *moduleObjects) change(name string, change func(*unstructured.Unstructured)) error {
	u := &unstructured.Unstructured{Object: m.object(name)}
	if u.Object == nil {
		u.Object = map[string]any{"apiVersion": moduleAPI, "kind": "Module", "spec": map[string]any{}}
		u.SetNamespace(scenario.Namespace)
		u.SetName(name)
	}
	change(u)
	return m.cluster.Apply(u.Object)
}

// moduleSteps are what people do to objects of kind Module.
func moduleSteps() map[string]step {
	return map[string]step{
		"module-objects": func(p *player, _ string) error {
			p.showsModules = true
			p.Cluster.Server.OnRequest(nil)
			return p.applyYAML(deploy.ModuleCRD)
		},
		"no-module-objects": stepNoModuleObjects,
		"module-suspend":    onModuleObject("suspend"),
		"module-request":    onModuleObject("request"),
		"module-retry":      onModuleObject("retry"),
		"module-crossed":    stepModuleCrossed,
		"module-slow": func(p *player, text string) (err error) {
			p.modules.slow, err = time.ParseDuration(text)
			return err
		},
		"module-delete": func(p *player, name string) error {
			_, err := p.Cluster.Delete(scenario.Reference{APIVersion: moduleAPI, Kind: "Module", Namespace: scenario.Namespace, Name: name})
			return err
		},
	}
}

// stepNoModuleObjects deletes the kind, or refuses all requests about it.
func stepNoModuleObjects(p *player, why string) error {
	p.showsModules = true
	if why != "forbidden" {
		_, err := p.Cluster.Delete(scenario.Reference{Kind: "CustomResourceDefinition", Name: "modules." + kube.ModuleGroup})
		return err
	}
	p.Cluster.Server.OnRequest(func(r apiserver.Request) error {
		if r.Group != kube.ModuleGroup {
			return nil
		}
		return apierrors.NewForbidden(schema.GroupResource{Group: r.Group, Resource: r.Resource}, r.Name, errors.New("no rule allows it"))
	})
	return nil
}

// moduleChange is what a person changes of an object: suspend, request or retry, with a text.
func moduleChange(how, text string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		if how == "suspend" {
			_ = unstructured.SetNestedField(u.Object, text != "false", "spec", "suspend") // spec is a map
			return
		}
		annotations := u.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[map[string]string{"request": kube.RequestedAtAnnotation, "retry": kube.RetryRequestedAtAnnotation}[how]] = text
		u.SetAnnotations(annotations)
	}
}

func onModuleObject(how string) step {
	return func(p *player, rest string) error {
		name, text, _ := strings.Cut(rest, " ")
		return p.modules.change(name, moduleChange(how, text))
	}
}

// stepModuleCrossed has a change of an object happen in the middle of the operator's next write of it.
func stepModuleCrossed(p *player, rest string) error {
	how, rest, _ := strings.Cut(rest, " ")
	name, text, _ := strings.Cut(rest, " ")
	p.modules.mu.Lock()
	defer p.modules.mu.Unlock()
	p.modules.crossed[name] = func() error { return p.modules.change(name, moduleChange(how, text)) }
	return nil
}
