package view

import (
	"strings"

	"addon-operator/values"
)

// Next is what a person should do about the worst problem of the module: a command, or a sentence.
// It is empty when nothing is wrong, and when the problem itself says what to do.
func (m Module) Next() string {
	switch {
	case len(m.Hanging) > 0:
		key, _ := values.Key(m.Name) // a module has one
		return "resolve what the hook waits for, set a time limit (settings.timeout), or disable the module: addon-operator values set " + key + "Enabled false"
	case m.Waiting != nil:
		return m.Waiting.next()
	case len(m.Failing) > 0 && m.Failing[0].Hook != "":
		return "addon-operator logs " + m.Name + " " + m.Failing[0].Hook
	case len(m.Failing) > 0 && strings.HasPrefix(m.Failing[0].Error, "hook "): // in a run of the module
		return "addon-operator logs " + m.Name
	case len(m.Failing) > 0 && m.LastRun != nil:
		return "addon-operator why " + m.Name + ", and what its chart would change: addon-operator module render " + m.Name + " --diff"
	case len(m.Failing) > 0:
		return "addon-operator why " + m.Name
	case len(m.Contested) > 0:
		return "the audit log of the API server and kubectl get events -A show what does that; remove one of the two"
	case m.Health != nil && len(m.Health.Unhealthy) > 0:
		return describe(m.Health.Unhealthy[0].Object)
	}
	return ""
}

// next is described with [Module.Next].
func (w Wait) next() string {
	if w.Module != "" {
		return "addon-operator why " + w.Module
	}
	if namespace, _, ok := strings.Cut(strings.TrimPrefix(w.Object, kindOf(w.Object)+" "), "/"); ok && w.Pod != "" {
		return describe("Pod " + namespace + "/" + w.Pod)
	}
	return describe(w.Object)
}

func kindOf(object string) string {
	kind, _, _ := strings.Cut(object, " ")
	return kind
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

// Next is like that of a module. Commands call the owner of global hooks "global".
func (s GlobalStatus) Next() string {
	if len(s.Failing) == 0 {
		return ""
	}
	return strings.TrimSpace("addon-operator logs global " + s.Failing[0].Hook)
}

// Next is like that of a module. The message about a deletion itself says what to do.
func (s ConfigStatus) Next() string {
	switch {
	case s.Refused == "" || strings.Contains(s.Refused, " is deleted; "):
		return ""
	case s.OnlySecret:
		return "fix the Secret; it is read again at once, and an Event with the reason Accepted follows"
	}
	return "fix the ConfigMap, for example with addon-operator values set or unset; it is read again at once, and an Event with the reason Accepted follows"
}
