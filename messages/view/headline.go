package view

import (
	"fmt"
	"slices"
	"strings"

	"addon-operator/values"
)

// Class is the state of a module in one word. Pages show the word, and a colour for it.
type Class string

// The classes, the worst first.
const (
	ClassFailing   Class = "failing"     // a task fails or a hook hangs, and is tried again
	ClassUnhealthy Class = "unhealthy"   // objects of the release have failed
	ClassWaiting   Class = "waiting"     // for a Helm hook or for another module
	ClassBusy      Class = "in progress" // it runs, or its objects are on their way
	ClassProblem   Class = "with a problem"
	ClassSuspended Class = "suspended" // by a person
	ClassReady     Class = "ready"
	ClassOff       Class = "off"
)

func classes() []Class {
	return []Class{ClassFailing, ClassUnhealthy, ClassWaiting, ClassBusy, ClassProblem, ClassSuspended, ClassReady, ClassOff}
}

// Rank is 0 for the worst.
func (c Class) Rank() int { return slices.Index(classes(), c) }

// Class is the worst that is true of the module.
func (m Module) Class() Class {
	switch {
	case len(m.Failing) > 0, len(m.Hanging) > 0:
		return ClassFailing
	case m.State == Unhealthy:
		return ClassUnhealthy
	case m.ModuleStatus.Waiting != nil:
		return ClassWaiting
	case m.Phase == Disabled:
		if len(m.Problems) > 0 {
			return ClassProblem
		}
		return ClassOff
	case m.Maintenance == values.Suspended:
		return ClassSuspended
	case len(m.Problems) > 0 && (m.State == string(Ready) || m.State == Held):
		return ClassProblem
	case m.State != string(Ready):
		return ClassBusy
	}
	return ClassReady
}

// Headline counts the modules by class, the worst first. Failing global hooks come before all
// modules.
func Headline(list []Module, global GlobalStatus) string {
	count := map[Class]int{}
	for _, m := range list {
		count[m.Class()]++
	}
	var parts []string
	if len(global.Failing) > 0 {
		parts = append(parts, "global hooks failing")
	}
	for _, c := range classes() {
		if count[c] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", count[c], c))
		}
	}
	if len(list) == 0 {
		parts = append(parts, "no modules")
	}
	return strings.Join(parts, ", ")
}
