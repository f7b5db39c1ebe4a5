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

// Verdict is what is said of a module, wherever something is said of it: on pages, by commands, in metrics
// and in its object.
type Verdict struct {
	Class Class `json:"class"`
	// Reason is that of the conditions of the object.
	Reason string `json:"reason"`
	// Message says it to people. Times in it are absolute: it changes only when something happens. It is empty
	// while the module runs, and nothing more is known.
	Message string `json:"message,omitempty"`
	// Next is what a person should do about it: a command, or a sentence. It is empty when nothing is
	// wrong, and when the message says what to do.
	Next string `json:"next,omitempty"`
}

// Class is the state of a module in one word. Pages show the word, and a colour for it.
type Class string

// The classes, the worst first.
const (
	ClassFailing   Class = "failing"     // a task fails or a hook hangs, and is tried again
	ClassUnhealthy Class = "unhealthy"   // objects of the release have failed
	ClassHeld      Class = "held"        // an upgrade or a purge waits for a person
	ClassPending   Class = "pending"     // a change is not applied yet: its run waits in a queue
	ClassBusy      Class = "in progress" // it runs, or its objects are on their way
	ClassProblem   Class = "with a problem"
	ClassSuspended Class = "suspended" // by a person
	ClassReady     Class = "ready"
	ClassOff       Class = "off"
)

func classes() []Class {
	return []Class{
		ClassFailing, ClassUnhealthy, ClassHeld, ClassPending, ClassBusy, ClassProblem, ClassSuspended, ClassReady, ClassOff,
	}
}

// Rank is 0 for the worst.
func (c Class) Rank() int { return slices.Index(classes(), c) }

// The reasons. The first six are those of Flux. They are an interface, as the conditions are.
const (
	Succeeded            = "ReconciliationSucceeded"
	InProgress           = "Progressing"
	ProgressingWithRetry = "ProgressingWithRetry"
	HealthCheckFailed    = "HealthCheckFailed"
	BySuspend            = "Suspended"
	ChangePending        = "ChangePending"
	RunFailed            = "RunFailed"
	HookFailed           = "HookFailed"
	HookHangs            = "HookHangs"
	Off                  = "Disabled"
	PurgeHeld            = "PurgeHeld"
	UpgradeHeld          = "UpgradeHeld"
)

// KeepsFailing is the number of attempts, after about half a minute, from which on a failure counts as permanent.
// Events begin there, too.
const KeepsFailing = 4

// Judge finds the worst that is true of a module: each case assumes that those above do not hold. So a task that
// fails wins over a wait, and that over the health of objects, which is that of before.
func Judge(m Module) Verdict {
	failing := m.worst()
	switch {
	case m.Maintenance == values.Suspended:
		return Verdict{ClassSuspended, BySuspend, "spec.suspend is true: the module does not run, and its release is left alone", ""}
	case len(m.Hanging) > 0:
		key, _ := values.Key(m.Name) // a module has one
		return Verdict{ClassFailing, HookHangs, m.Hanging[0].String(),
			"resolve what the hook waits for, set a time limit (settings.timeout), or disable the module: addon-operator values set " + key + "Enabled false"}
	case failing != nil:
		reason := RunFailed
		if failing.Attempts < KeepsFailing {
			reason = ProgressingWithRetry
		} else if failing.Hook != "" {
			reason = HookFailed
		}
		return Verdict{ClassFailing, reason, failing.Message(), failing.Next(m.Name)}
	case m.PurgeHeld != nil:
		return Verdict{ClassHeld, PurgeHeld, m.Off + ", and the purge of its release is held back", m.PurgeHeld.Confirm}
	case m.Phase == Disabled:
		return m.judgeOff()
	case m.State == Held:
		return Verdict{ClassHeld, UpgradeHeld, m.Held, ""}
	case m.State == Unhealthy:
		first := m.Health.Unhealthy[0]
		return Verdict{ClassUnhealthy, HealthCheckFailed, first.String(), describe(first.Object)}
	case m.waits != "" && (m.Phase == Ready || m.Phase == Waiting):
		return Verdict{ClassPending, ChangePending, m.waits, ""}
	case m.State == Progressing && len(m.Health.Unhealthy) > 0:
		return Verdict{ClassBusy, InProgress, m.Health.String(), describe(m.Health.Unhealthy[0].Object)}
	}
	return m.judgeReady()
}

// judgeOff is about a module that is disabled. It is as it should be, unless that is not known yet.
func (m Module) judgeOff() Verdict {
	switch {
	case m.Off == "": // before the first discovery
		return Verdict{ClassBusy, InProgress, "it is not yet known whether the module is enabled", ""}
	case strings.HasPrefix(m.Off, discoveryFails):
		return Verdict{ClassFailing, ProgressingWithRetry, m.Off, ""}
	case strings.HasSuffix(m.Off, undecided):
		return Verdict{ClassBusy, InProgress, m.Off, ""}
	case len(m.Problems) > 0:
		return Verdict{ClassProblem, Off, strings.Join(m.Problems, "; "), ""}
	}
	return Verdict{ClassOff, Off, "disabled: " + m.Off, ""}
}

// judgeReady is about a module that runs, or is ready: what a person should look at all the same, or else what the
// last run did.
func (m Module) judgeReady() Verdict {
	if m.State != string(Ready) {
		return Verdict{ClassBusy, InProgress, "", ""}
	}
	v := Verdict{ClassReady, Succeeded, "the last run has succeeded", ""}
	problems := m.Problems
	if len(problems) > 0 {
		v.Class = ClassProblem
	}
	if m.Maintenance != "" {
		problems = slices.Concat([]string{"its release is left alone: maintenance " + m.Maintenance}, problems)
	}
	if m.Drift > 0 {
		problems = append(problems, Count(m.Drift, "object")+" changed by others")
	}
	switch {
	case len(problems) > 0:
		v.Message = strings.Join(problems, "; ")
	case m.LastRun != nil && m.LastRun.Release != "":
		v.Message = m.LastRun.Release
	}
	return v
}

// Troubled reports whether a person should look at the module. One that is only off, or on its way, is not.
func (m Module) Troubled() bool {
	return m.Verdict.Class.Rank() <= ClassProblem.Rank() && (m.Verdict.Class != ClassBusy || m.State == Progressing)
}

// worst is the task with most failed attempts; tasks of the module come before those of hooks. Nil: none fails.
// Equal ones are ordered by name, so that the verdict does not change back and forth.
func (m Module) worst() *FailingTask {
	if len(m.Failing) == 0 {
		return nil
	}
	ofHook := func(f FailingTask) int { return min(1, len(f.Hook)) }
	worst := slices.MinFunc(m.Failing, func(x, y FailingTask) int {
		return cmp.Or(ofHook(x)-ofHook(y), cmp.Compare(y.Attempts, x.Attempts), cmp.Compare(x.Task, y.Task))
	})
	return &worst
}

// Message says to people that a task fails.
func (f FailingTask) Message() string {
	text := fmt.Sprintf("%s has failed %s", f.Task, Count(f.Attempts, "time"))
	if !f.RetryAt.IsZero() {
		text += ", next attempt at " + f.RetryAt.Local().Format(time.TimeOnly)
	}
	return text + ": " + f.Error
}

// Next is what a person should do about a task of a module, or of "global".
func (f FailingTask) Next(owner string) string {
	if f.Hook != "" || strings.HasPrefix(f.Error, "hook ") { // in a run of the module
		return strings.TrimSpace("addon-operator logs " + owner + " " + f.Hook)
	}
	const text = "addon-operator why %[1]s, and what its chart would change: addon-operator module render %[1]s --diff"
	return fmt.Sprintf(text, owner)
}

// markWaiting marks the modules whose runs wait in the queue main; those of a reload that has not found out yet what
// to run, and of a group in progress, included.
func (s QueueStatus) markWaiting(modules map[string]*Module, enabled []string) {
	for i, t := range s.Head {
		begun, behind := s.InProgress && i == 0, ""
		if s.InProgress && !begun {
			behind = strings.TrimSuffix(" behind "+s.Head[0].What()+" of "+s.Head[0].Owner, " of "+messages.Converge)
		}
		var names []string
		switch w := t.Work.(type) {
		case messages.RunModule:
			names = []string{t.Owner}
		case messages.RunModules:
			names = w.Names
		case messages.DiscoverModules: // they run after it
			if names = w.Modules; len(names) == 0 {
				names = enabled
			}
		case messages.ReloadModules:
			names = enabled
		}
		for _, name := range names {
			m := modules[name]
			if m == nil || m.waits != "" || begun && m.LastRun != nil && !m.LastRun.Began.Before(s.Since) {
				continue // it has begun
			}
			m.waits = fmt.Sprintf("its run (%s) waits in queue %s%s", t.Cause, messages.MainQueue, behind)
		}
	}
}

// Headline counts the modules by class, the worst first. Failing global hooks come before all modules.
func Headline(list []Module, global GlobalStatus) string {
	count := map[Class]int{}
	for _, m := range list {
		count[m.Verdict.Class]++
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

// Stage describes what the operator does with all modules: it starts, reloads them, or waits for a cause. tasks are
// those in the main queue. It has converged only if all modules are as they should be.
func Stage(list []Module, global GlobalStatus, c ConvergeStatus, tasks int) string {
	settled := func(m Module) bool { return m.Verdict.Class.Rank() >= ClassProblem.Rank() }
	switch {
	case c.Waits != "":
		return "starting: " + c.Waits
	case c.Phase == ConvergeReloading:
		return fmt.Sprintf("reloading all modules, %s to do", Count(tasks, "task"))
	case !c.Ready:
		return "starting"
	case len(global.Failing) > 0 || slices.ContainsFunc(list, func(m Module) bool { return !settled(m) && m.PurgeHeld == nil }):
		return "the last reload of all modules is over, but not all of them are ready"
	case c.HeldPurge != nil:
		return "converged, but a purge is held back"
	}
	return "converged"
}

// describe is the command that shows an object, which is named as Kind namespace/name or Kind name.
func describe(object string) string {
	kind, name, _ := strings.Cut(object, " ")
	command := "kubectl "
	if namespace, rest, ok := strings.Cut(name, "/"); ok {
		command, name = command+"-n "+namespace+" ", rest
	}
	return command + "describe " + strings.ToLower(kind) + " " + name
}
