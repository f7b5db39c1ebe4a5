package testkit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/actors/scenario"
	"addon-operator/kube"
)

// moduleObjects are the objects of kind Module of a script. They outlive the operator. The lock is
// held while notify is called, so that news arrive in the order of the writes; notify only sends a
// message.
type moduleObjects struct {
	trace *scenario.Trace

	mu      sync.Mutex
	objects map[string]kube.ModuleObject // by name, which is that of the module
	version int                          // the latest resourceVersion; all objects share the count
	writes  map[string]int               // by module, since the last step module-writes
	refused error                        // of all requests; NotFound: the kind does not exist
	notify  func(kube.ModuleNews)        // of the latest operator; nil before the first
	quiet   bool                         // writes are counted, and not traced
	slow    time.Duration                // how long each write takes
	// crossed is what people do just before the next write of an object, so that its answer shows
	// it before the watch does.
	crossed map[string]func()
}

// Read implements shared.ModuleObjects.
func (m *moduleObjects) Read(context.Context) ([]kube.ModuleObject, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case apierrors.IsNotFound(m.refused):
		return nil, nil
	case m.refused != nil:
		return nil, m.refused
	}
	return m.list(), nil
}

func (m *moduleObjects) list() (all []kube.ModuleObject) {
	for _, name := range slices.Sorted(maps.Keys(m.objects)) {
		all = append(all, m.objects[name])
	}
	return all
}

// Watch implements shared.ModuleObjects.
func (m *moduleObjects) Watch(_ context.Context, notify func(kube.ModuleNews)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notify = notify
	m.began()
}

// began is the first news of a watch, or of one that begins again: why there are no objects, or
// all.
func (m *moduleObjects) began() {
	if m.refused != nil {
		m.notify(kube.ModuleNews{Absent: m.refused})
		return
	}
	m.notify(kube.ModuleNews{All: m.list(), Listed: true})
}

// Create implements shared.ModuleObjects.
func (m *moduleObjects) Create(_ context.Context, name string, suspend bool) (kube.ModuleObject, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused != nil {
		return kube.ModuleObject{}, m.refused
	}
	if object, there := m.objects[name]; there {
		return object, nil
	}
	m.note(name, "created")
	return m.store(kube.ModuleObject{Name: name, Generation: 1, Ours: true, Suspend: suspend}), nil
}

// Apply implements shared.ModuleObjects.
func (m *moduleObjects) Apply(_ context.Context, name string, status kube.ModuleStatus) (kube.ModuleObject, error) {
	m.mu.Lock()
	slow := m.slow
	m.mu.Unlock()
	time.Sleep(slow) // on virtual time
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused != nil {
		return kube.ModuleObject{}, m.refused
	}
	object, there := m.objects[name]
	if !there {
		return object, apierrors.NewNotFound(schema.GroupResource{Group: kube.ModuleGroup, Resource: "modules"}, name)
	}
	if cross := m.crossed[name]; cross != nil {
		delete(m.crossed, name)
		cross()
		object = m.objects[name]
	}
	m.note(name, shown(status))
	object.Status = status
	return m.store(object), nil
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

// Delete implements shared.ModuleObjects. As the API server with a precondition, it refuses to
// delete an object that has changed since it was read.
func (m *moduleObjects) Delete(_ context.Context, read kube.ModuleObject) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refused != nil {
		return m.refused
	}
	name := read.Name
	if cross := m.crossed[name]; cross != nil {
		delete(m.crossed, name)
		cross()
	}
	if now, there := m.objects[name]; there && now.Version != read.Version {
		return apierrors.NewConflict(schema.GroupResource{Group: kube.ModuleGroup, Resource: "modules"}, name, errors.New("it has changed"))
	}
	m.note(name, "deleted")
	m.remove(name)
	return nil
}

// note counts a write.
func (m *moduleObjects) note(name, what string) {
	m.writes[name]++
	if !m.quiet {
		m.trace.Add("object %s: %s", name, what)
	}
}

// store writes an object with a new version, and notifies the operator. The caller holds the lock,
// here and in remove and change.
func (m *moduleObjects) store(object kube.ModuleObject) kube.ModuleObject {
	m.version++
	object.Version = strconv.Itoa(m.version)
	m.objects[object.Name] = object
	if m.notify != nil {
		m.notify(kube.ModuleNews{Set: &object})
	}
	return object
}

func (m *moduleObjects) remove(name string) {
	delete(m.objects, name)
	if m.notify != nil {
		m.notify(kube.ModuleNews{Gone: name})
	}
}

// moduleSteps are what people do to objects of kind Module.
func moduleSteps() map[string]step {
	return map[string]step{
		"module-objects": func(p *player, how string) error {
			p.showsModules, p.modules.quiet = true, how == "quiet"
			return p.modules.refuse(nil)
		},
		"no-module-objects": func(p *player, why string) error {
			p.showsModules = true
			kind := schema.GroupResource{Group: kube.ModuleGroup, Resource: "modules"}
			if why == "forbidden" {
				return p.modules.refuse(apierrors.NewForbidden(kind, "", fmt.Errorf("no rule allows it")))
			}
			return p.modules.refuse(apierrors.NewNotFound(kind, ""))
		},
		"module-suspend": onModuleObject(suspend),
		"module-request": onModuleObject(request),
		"module-crossed": crossing,
		"module-slow": func(p *player, text string) (err error) {
			p.modules.mu.Lock()
			defer p.modules.mu.Unlock()
			p.modules.slow, err = time.ParseDuration(text)
			return err
		},
		"module-retry": onModuleObject(func(o *kube.ModuleObject, at string) { o.RetryRequestedAt = at }),
		"module-delete": func(p *player, name string) error {
			p.modules.mu.Lock()
			defer p.modules.mu.Unlock()
			p.modules.remove(name)
			return nil
		},
		"module-writes": func(p *player, _ string) error {
			m := p.modules
			m.mu.Lock()
			defer m.mu.Unlock()
			all, most := 0, 0
			for _, n := range m.writes {
				all, most = all+n, max(most, n)
			}
			clear(m.writes)
			m.trace.Add("writes of objects: %d of all modules, %d of one", all, most)
			return nil
		},
	}
}

// crossing has a change of an object happen in the middle of the operator's next write of it.
func crossing(p *player, rest string) error {
	how, rest, _ := strings.Cut(rest, " ")
	name, text, _ := strings.Cut(rest, " ")
	change := map[string]func(*kube.ModuleObject, string){"suspend": suspend, "request": request}[how]
	if change == nil {
		return fmt.Errorf("module-crossed accepts suspend and request, not %q", how)
	}
	m := p.modules
	m.mu.Lock()
	defer m.mu.Unlock()
	m.crossed[name] = func() { m.change(name, text, change) }
	return nil
}

// refuse has all requests fail from now on; nil: the kind is there.
func (m *moduleObjects) refuse(err error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused = err
	if m.notify != nil {
		m.began()
	}
	return nil
}

// onModuleObject changes an object. One that does not exist is created, and belongs to a person: it
// is not marked as the operator's.
func onModuleObject(change func(o *kube.ModuleObject, text string)) step {
	return func(p *player, rest string) error {
		name, text, _ := strings.Cut(rest, " ")
		p.modules.mu.Lock()
		defer p.modules.mu.Unlock()
		p.modules.change(name, text, change)
		return nil
	}
}

func (m *moduleObjects) change(name, text string, change func(o *kube.ModuleObject, text string)) {
	object := m.objects[name]
	object.Name = cmp.Or(object.Name, name)
	change(&object, text)
	m.store(object)
}

func request(o *kube.ModuleObject, at string) { o.RequestedAt = at }

func suspend(o *kube.ModuleObject, what string) {
	o.Suspend = what != "false"
	o.Generation++
}
