package view

import (
	"fmt"
	"slices"
	"time"

	"addon-operator/values"
)

// Health is the state of the objects of a module's release, by the rules of kstatus (H25).
type Health struct {
	// Objects is how many the release has, Current how many of them are in the state that their
	// specs describe.
	Objects int `json:"objects"`
	Current int `json:"current"`
	// InProgress (objects that are being deleted included), Failed and Unknown count the others.
	InProgress int `json:"inProgress,omitempty"`
	Failed     int `json:"failed,omitempty"`
	Unknown    int `json:"unknown,omitempty"`
	// Unhealthy are the objects that are not current, the worst first; at most 20 of them.
	Unhealthy []ObjectHealth `json:"unhealthy,omitempty"`
	// Images are those of its workloads, sorted; at most 20 of them.
	Images []string `json:"images,omitempty"`
	// DeadlineSeconds is how long an object may be in progress before that is a problem.
	DeadlineSeconds int `json:"progressDeadlineSeconds"`
}

// The states of an object, in the words of kstatus.
const (
	ObjectCurrent     = "Current"
	ObjectInProgress  = "InProgress"
	ObjectFailed      = "Failed"
	ObjectTerminating = "Terminating"
	ObjectUnknown     = "Unknown"
)

// ObjectHealth is an object that is not current.
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

// Of is the state of one object, and the message of its status. It is not known of an object that is
// not current and not among those that are listed.
func (h *Health) Of(object string) (state, message string) {
	if h == nil {
		return "", ""
	}
	for _, o := range h.Unhealthy {
		if o.Object == object {
			return o.State, o.Message
		}
	}
	if h.Objects > h.Current+len(h.Unhealthy) {
		return "", ""
	}
	return ObjectCurrent, ""
}

// unwell reports whether the object has failed, or has been in progress for longer than the
// deadline.
func (h *Health) unwell(o ObjectHealth, now time.Time) bool {
	switch o.State {
	case ObjectFailed:
		return true
	case ObjectInProgress, ObjectTerminating:
		return now.Sub(o.Since) >= time.Duration(h.DeadlineSeconds)*time.Second
	}
	return false
}

// The states of a module whose runs are over.
const (
	Progressing = "progressing" // objects of its release are on their way
	Unhealthy   = "unhealthy"   // objects of its release have failed, or are on their way for too long
	Held        = "held"        // an upgrade waits until a person allows it
)

// Problem is the worst of what is wrong with the objects; "" when nothing is. An object in progress
// is no problem until the deadline.
func (h *Health) Problem(now time.Time) string {
	if h == nil {
		return ""
	}
	for _, o := range h.Unhealthy {
		if h.unwell(o, now) {
			return o.String()
		}
	}
	return ""
}

// readTime is how long an unknown object keeps the module from being ready: it may be one that the
// operator may not read (H25).
const readTime = 30 * time.Second

// progressing reports whether objects are on their way.
func (h *Health) progressing(now time.Time) bool {
	return slices.ContainsFunc(h.Unhealthy, func(o ObjectHealth) bool { return o.State != ObjectUnknown || now.Sub(o.Since) < readTime })
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
	case objects.Problem(now) != "":
		return Unhealthy
	case objects.progressing(now):
		return Progressing
	}
	return string(Ready)
}
