package server

import (
	"fmt"
	"slices"
	"strings"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// class is how a module is doing, in one word. Pages show it by this word, and by a colour.
type class string

// The classes, the worst first.
const (
	classFailing   class = "failing"     // a task fails or a hook hangs, and is tried again
	classUnhealthy class = "unhealthy"   // objects of the release have failed
	classWaiting   class = "waiting"     // for a Helm hook or for another module
	classBusy      class = "in progress" // it runs, or its objects are on their way
	classProblem   class = "with a problem"
	classReady     class = "ready"
	classOff       class = "off"
)

func classes() []class {
	return []class{classFailing, classUnhealthy, classWaiting, classBusy, classProblem, classReady, classOff}
}

// rank is 0 for the worst.
func (c class) rank() int { return slices.Index(classes(), c) }

// class is the worst that is true of the module.
func (m moduleEntry) class() class {
	switch {
	case len(m.Failing) > 0, len(m.Hanging) > 0:
		return classFailing
	case m.State == view.Unhealthy:
		return classUnhealthy
	case m.ModuleStatus.Waiting != nil:
		return classWaiting
	case m.Phase == view.Disabled:
		if len(m.Problems) > 0 {
			return classProblem
		}
		return classOff
	case m.State != string(view.Ready):
		return classBusy
	case len(m.Problems) > 0:
		return classProblem
	}
	return classReady
}

// headline counts the modules by class, the worst first, after the failing global hooks.
func headline(list []moduleEntry, global view.GlobalStatus) string {
	count := map[class]int{}
	for _, m := range list {
		count[m.class()]++
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

// stage says what the operator does with all modules: starts, reloads them, or waits for a cause.
func stage(tree []*supervisor.Node, c view.ConvergeStatus) string {
	switch {
	case c.Waits != "":
		return "starting: " + c.Waits
	case c.Phase == view.ConvergeReloading:
		return fmt.Sprintf("reloading all modules, %s to do", view.Count(queueLength(tree, messages.MainQueue), "task"))
	case !c.Ready:
		return "starting"
	case c.HeldPurge != nil:
		return "converged, but a purge is held back"
	}
	return "converged"
}

// globalStatus is that of the global hooks.
func globalStatus(tree []*supervisor.Node) (status view.GlobalStatus) {
	walk(tree, func(n *supervisor.Node) {
		if s, ok := n.Status.(view.GlobalStatus); ok {
			status = s
		}
	})
	return status
}
