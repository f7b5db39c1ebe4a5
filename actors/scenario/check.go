package scenario

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"addon-operator/actors"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// check compares what is with what is expected and notes every difference.
func (p *play) check(ctx context.Context, place string, e expect) {
	report := func(part string, problems []string) {
		for _, problem := range problems {
			p.problems = append(p.problems, place+"."+part+": "+p.files.readable(problem))
		}
	}
	report("refused", checkRefused(p.Engine, e.Refused))
	report("failing", checkFailing(failing(p.Engine), e.Failing))
	report("hooks", p.checkHooks(e.Hooks))
	report("values", p.checkValues(ctx, e.Values))
	report("configMap", checkConfigMap(p.Cluster.ConfigMap.Data(), e.ConfigMap))
	report("objects", checkObjects(p.Cluster.Server.Objects, e.Objects))
	report("absent", checkAbsent(p.Cluster.Server.Objects, e.Absent))
	report("rendered", p.checkRendered(e.Rendered))
	report("metrics", checkMetrics(p.Operator, e.Metrics))
	report("modules", checkModules(p.Operator, e.Modules))
	log := p.Trace.String()
	for _, text := range e.Log {
		if !strings.Contains(log, text) {
			report("log", []string{fmt.Sprintf("%q is not in the log:\n%s", text, log)})
		}
	}
}

func checkRefused(e *Engine, want string) []string {
	reason := ""
	if e.Refused != nil {
		reason = e.Refused.Error()
	} else if status, ok := e.Operator.Inspector().Status("operator/config").(view.ConfigStatus); ok {
		reason = status.Refused
	}
	switch {
	case want == "" && reason != "":
		return []string{"it is refused: " + reason}
	case !strings.Contains(reason, want) && reason == "":
		return []string{fmt.Sprintf("nothing is refused; it must be with %q", want)}
	case !strings.Contains(reason, want):
		return []string{fmt.Sprintf("the reason must contain %q, is: %s", want, reason)}
	}
	return nil
}

// checkFailing wants every task to succeed that is not expected to fail.
func checkFailing(got, want map[string]string) (problems []string) {
	for _, owner := range slices.Sorted(maps.Keys(got)) {
		text, expected := want[owner]
		switch {
		case !expected:
			problems = append(problems, owner+" fails: "+strings.TrimSpace(got[owner]))
		case !strings.Contains(got[owner], text):
			problems = append(problems, fmt.Sprintf("the error of %s must contain %q, is: %s", owner, text, got[owner]))
		}
	}
	for _, owner := range slices.Sorted(maps.Keys(want)) {
		if _, ok := got[owner]; !ok {
			problems = append(problems, owner+" must fail, but does not")
		}
	}
	return problems
}

// checkValues compares the merged values of the modules that are there.
func (p *play) checkValues(ctx context.Context, want tree) []string {
	if want == nil {
		return nil
	}
	got := map[string]any{}
	for i, path := range append([]string{messages.GlobalHooks}, p.files.names...) {
		key := values.GlobalKey
		if i > 0 {
			path, key = "module/"+path, p.files.keys[i-1]
		}
		if p.Operator == nil {
			return []string{errNotRunning.Error()}
		}
		answer, err := p.Operator.Ask(ctx, path, messages.GetValues{})
		if err != nil {
			continue // a module that is disabled has no values
		}
		if v, ok := answer.(messages.Values); ok {
			got[key] = v.Section.Merged()
		}
	}
	return difference("", want, got)
}

func checkConfigMap(data map[string]string, want tree) (problems []string) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		text, exists := data[key]
		switch w := want[key].(type) {
		case nil:
			if exists {
				problems = append(problems, fmt.Sprintf("%s must be absent, is %q", key, text))
			}
		case string:
			if strings.TrimSpace(w) != strings.TrimSpace(text) {
				problems = append(problems, fmt.Sprintf("%s must be %q, is %q", key, w, text))
			}
		default:
			got, err := values.ParseYAML([]byte(text))
			if err != nil || !exists {
				problems = append(problems, fmt.Sprintf("%s must be %s, is %q", key, short(w), text))
				continue
			}
			problems = append(problems, difference(key, w, got)...)
		}
	}
	return problems
}

// find looks for objects by kind and name; an absent apiVersion or namespace means any.
func find(objects []map[string]any, apiVersion, kind, namespace, name string) (found map[string]any, alike []string) {
	for _, object := range objects {
		meta, _ := object["metadata"].(map[string]any)
		if object["kind"] != kind || apiVersion != "" && object["apiVersion"] != apiVersion {
			continue
		}
		other, _ := meta["namespace"].(string)
		if meta["name"] == name && (namespace == "" || namespace == other) {
			return object, nil
		}
		alike = append(alike, identity(object))
	}
	return nil, alike
}

func checkObjects(objects func() []map[string]any, want []tree) (problems []string) {
	for _, w := range want {
		text := func(object any, key string) string {
			m, ok := object.(map[string]any)
			if t, is := object.(tree); is {
				m, ok = t, true
			}
			if !ok {
				return ""
			}
			s, _ := m[key].(string)
			return s
		}
		meta := w["metadata"]
		kind, namespace, name := text(w, "kind"), text(meta, "namespace"), text(meta, "name")
		got, alike := find(objects(), text(w, "apiVersion"), kind, namespace, name)
		if got == nil {
			problems = append(problems, fmt.Sprintf("there is no %s; there are %v", Reference{Kind: kind, Namespace: namespace, Name: name}, alike))
			continue
		}
		problems = append(problems, difference(Reference{Kind: kind, Namespace: namespace, Name: name}.String(), w, withTexts(got))...)
	}
	return problems
}

func checkAbsent(objects func() []map[string]any, want []Reference) (problems []string) {
	for _, r := range want {
		if got, _ := find(objects(), r.APIVersion, r.Kind, r.Namespace, r.Name); got != nil {
			problems = append(problems, fmt.Sprintf("%s must not be there", identity(got)))
		}
	}
	return problems
}

func checkModules(operator *actors.Operator, want map[string]string) (problems []string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		phase := view.Disabled
		if operator != nil {
			if status, ok := operator.Inspector().Status("operator/module/" + name).(view.ModuleStatus); ok {
				phase = status.Phase
			}
		}
		if string(phase) != want[name] {
			problems = append(problems, fmt.Sprintf("%s must be %s, is %s", name, want[name], phase))
		}
	}
	return problems
}
