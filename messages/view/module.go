package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"addon-operator/messages"
	"addon-operator/values"
)

// Module is everything that is shown of a module: in the list of modules, on pages, and in objects
// of kind Module.
type Module struct {
	Name string `json:"name"`
	// State is the phase, and how the objects of the release are doing.
	State string `json:"state"`
	ModuleStatus
	// Health is nil when the release has no objects, or they are not watched.
	Health *Health `json:"health,omitempty"`
	// Off says why it is off, On why it is enabled; one of them is empty.
	Off string `json:"off,omitempty"`
	On  string `json:"on,omitempty"`
	// Problems are what is wrong with its files, with what its chart prints, and with what its hooks watch.
	Problems []string `json:"problems,omitempty"`
	// Hanging are the runs of its hooks that take too long.
	Hanging []RunningHook `json:"hanging,omitempty"`
	Verdict Verdict       `json:"verdict"`

	// PurgeHeld: its directory is gone, and the purge of its release waits for a person.
	PurgeHeld *HeldPurge `json:"-"`
	// waits says how its run waits in a queue; empty for none.
	waits string
}

// Modules lists all modules in the order in which they run, from the statuses that actors have
// published, by path. differs says for each module how its files differ from what is in force (P8).
func Modules[S any](statuses map[string]S, hanging []RunningHook, differs map[string]string, now time.Time) []Module {
	all := []Module{}
	var converge ConvergeStatus
	var main QueueStatus // all runs of modules are there
	var releases map[string]*Health
	for path, status := range statuses {
		switch status := any(status).(type) {
		case ModuleStatus:
			_, name, _ := strings.Cut(path, "/module/")
			all = append(all, Module{Name: name, ModuleStatus: status})
		case QueueStatus:
			if strings.HasSuffix(path, "/queue/"+messages.MainQueue) {
				main = status
			}
		case ConvergeStatus:
			converge = status
		case HealerStatus:
			releases = status.Releases
		}
	}
	problems, byName := Problems(statuses), map[string]*Module{}
	for i := range all {
		m := &all[i]
		byName[m.Name] = m
		m.Health, m.Off, m.On = releases[m.Name], converge.Off[m.Name], converge.On[m.Name]
		m.State = m.state(m.Health, now)
		m.Problems = slices.Concat([]string{m.Held, m.Loop}, problems[m.Name], []string{differs[m.Name]})
		m.Problems = slices.DeleteFunc(m.Problems, func(problem string) bool { return problem == "" })
		for _, h := range hanging {
			if h.Module == m.Name {
				m.Hanging = append(m.Hanging, h)
			}
		}
		if held := converge.HeldPurge; held != nil && slices.Contains(held.Releases, m.Name) {
			m.PurgeHeld = held
		}
	}
	main.markWaiting(byName, converge.Enabled)
	for i := range all {
		m := &all[i]
		if m.waits != "" && m.State == string(Ready) {
			m.State = string(ClassPending)
		}
		m.Verdict = Judge(*m)
	}
	slices.SortFunc(all, func(a, b Module) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// Problems are what is wrong with files and with watches of bindings, by module or
// messages.GlobalHooks.
func Problems[S any](statuses map[string]S) map[string][]string {
	problems := map[string][]string{}
	for _, status := range statuses {
		switch status := any(status).(type) {
		case ConvergeStatus:
			for owner, list := range status.Problems {
				problems[owner] = slices.Concat(list, problems[owner])
			}
		case MonitorsStatus:
			for _, b := range status.Bindings {
				if problem := bindingProblem(b); problem != "" {
					problems[b.Owner] = append(problems[b.Owner], "hook "+b.Hook+": "+problem)
				}
			}
		}
	}
	return problems
}

// Health is the state of the objects of a module's release, by the rules of kstatus (H25).
type Health struct {
	// Objects is how many the release has, Current how many of them are in the state that their
	// specs describe.
	Objects int `json:"objects"`
	Current int `json:"current"`
	// Unhealthy are the objects that are not current, the worst first; at most 20 of them. All are sorted by name.
	Unhealthy []ObjectHealth `json:"unhealthy,omitempty"`
	All       []ObjectHealth `json:"-"`
}

// String implements fmt.Stringer. It is empty when all objects are current.
func (h *Health) String() string {
	if h == nil || len(h.Unhealthy) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d objects are current: %s", h.Current, h.Objects, h.Unhealthy[0])
}

// The states of an object, in the words of kstatus.
const (
	ObjectCurrent     = "Current"
	ObjectInProgress  = "InProgress"
	ObjectFailed      = "Failed"
	ObjectTerminating = "Terminating"
	ObjectUnknown     = "Unknown"
)

// ObjectHealth is how an object is doing.
type ObjectHealth struct {
	Object string `json:"object"` // Kind namespace/name
	State  string `json:"state"`  // one of the constants above
	// Message is that of its status.
	Message string `json:"message,omitempty"`
	// Since is when this operator first saw it in this state.
	Since time.Time `json:"since"`
}

// String implements fmt.Stringer.
func (o ObjectHealth) String() string {
	text := fmt.Sprintf("%s has been %s since %s", o.Object, o.State, o.Since.Local().Format(time.TimeOnly))
	if o.Message != "" {
		text += ": " + o.Message
	}
	return text
}

// The states of a module whose runs are over.
const (
	Progressing = "progressing" // objects of its release are on their way
	Unhealthy   = "unhealthy"   // objects of its release have failed, or are on their way for too long
	Held        = "held"        // an upgrade waits until a person allows it
)

const (
	// progressDeadline is the time after which an object that is in progress is a problem (H25): that of Deployments.
	progressDeadline = 10 * time.Minute
	// readTime is how long an unknown object keeps the module from being ready: it may be one that the
	// operator may not read (H25).
	readTime = 30 * time.Second
)

// State is Unhealthy if an object has failed, or is on its way for longer than the deadline, and Progressing if
// objects are on their way.
func (h *Health) State(now time.Time) string {
	state := string(Ready)
	for _, o := range h.Unhealthy {
		lasts := now.Sub(o.Since)
		switch {
		case o.State == ObjectFailed, o.State != ObjectUnknown && lasts >= progressDeadline:
			return Unhealthy
		case o.State != ObjectUnknown || lasts < readTime:
			state = Progressing
		}
	}
	return state
}

// state is the phase of the module or, once its runs are over, the state of its objects.
func (s ModuleStatus) state(objects *Health, now time.Time) string {
	switch {
	case s.Maintenance == values.Suspended && s.Phase != Disabled && s.Phase != Deleting:
		return string(Suspended)
	case s.Phase == Ready && s.Held != "":
		return Held
	case s.Phase != Ready || objects == nil:
		return string(s.Phase)
	}
	return objects.State(now)
}
