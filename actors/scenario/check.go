package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"addon-operator/actors"
	"addon-operator/actors/scenario/match"
	"addon-operator/kube/apiserver"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// check compares what is with what is expected and notes every difference. It is called when the
// operator is idle. Calls and runs are compared since the last check, all else as it is now. The
// order is that of the report: why the operator refuses or fails explains most of what follows.
func (p *play) check(place string, e expect) {
	report := func(part string, problems []string) {
		for _, problem := range problems {
			p.problems = append(p.problems, place+"."+part+": "+p.files.readable(problem))
		}
	}
	report("refused", checkRefused(p.Engine, e.Refused))
	report("failing", checkFailing(failing(p.Engine), e.Failing))
	report("hooks", p.checkHooks(e.Hooks))
	report("commands", p.commands.Check(e.Commands))
	report("http", p.http.Check(e.HTTP))
	report("values", p.checkValues(e.Values))
	report("configMap", checkConfigMap(p.Cluster.ConfigMap.Data(), e.ConfigMap))
	report("objects", checkObjects(p.Cluster.Server.Objects, e.Objects))
	report("absent", checkAbsent(p.Cluster.Server.Objects, e.Absent))
	report("rendered", p.checkRendered(e.Rendered))
	report("metrics", checkMetrics(p.Operator, e.Metrics))
	report("modules", checkModules(p.Operator, e.Modules))
	if strict := p.scenario.Given.StrictFields; strict == nil || *strict {
		for _, text := range p.fields.news() {
			p.problems = append(p.problems, place+": "+text)
		}
	}
	report("log", checkLog(p.Trace.String(), e.Log))
}

// fieldNotes are the fields of objects that an API server would drop, and the values that it would
// refuse, each once: an object is written again by each upgrade and dry run.
type fieldNotes struct {
	noted    supervisor.Shared[[]string]
	reported int // how many of them a check has reported; only the goroutine of the play uses it
}

// note notes a field of an object that an API server would drop, or a value that it would refuse.
// The API server calls it in the goroutine of the request, with its lock held.
func (f *fieldNotes) note(object map[string]any, wrong apiserver.FieldProblem) {
	text := match.Identity(object)
	if release := releaseOf(object); release != "" {
		text += ", of the release " + release
	}
	text += ": " + wrong.String()
	if len(wrong.Known) > 0 {
		text += "; " + nearest(wrong.Path[len(wrong.Path)-1], wrong.Known)
	}
	f.noted.Change(func(noted []string) []string {
		if slices.Contains(noted, text) {
			return noted
		}
		return append(slices.Clip(noted), text)
	})
}

// news are those that were noted since the last call.
func (f *fieldNotes) news() []string {
	noted := f.noted.Get()
	latest := noted[f.reported:]
	f.reported = len(noted)
	return latest
}

// releaseOf is the release that an object belongs to, by the annotation that Helm sets; "" for
// none.
func releaseOf(object map[string]any) string {
	meta, _ := object["metadata"].(map[string]any)
	notes, _ := meta["annotations"].(map[string]any)
	release, _ := notes["meta.helm.sh/release-name"].(string)
	return release
}

// checkLog wants texts in the log, and other matchers to match it as a whole.
func checkLog(log string, want []match.Value) (problems []string) {
	for _, w := range want {
		switch matcher, _ := w.Any.(map[string]any); text := w.Any.(type) {
		case string:
			if !strings.Contains(log, text) {
				problems = append(problems, fmt.Sprintf("%q is not in the log:\n%s", text, log))
			}
		default:
			if unwanted, ok := matcher["$not"].(string); ok { // as everywhere here, a text is a part of the log
				text = map[string]any{"$not": map[string]any{"$contains": unwanted}}
			}
			if len(match.Difference("", text, log)) > 0 {
				problems = append(problems, fmt.Sprintf("the log does not match %s:\n%s", match.Short(w.Any), log))
			}
		}
	}
	return problems
}

// checkRefused compares why the start, or the ConfigMap, is refused. A refusal that no text is
// expected for is a problem, too.
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
		return []string{fmt.Sprintf("nothing is refused; want a refusal with %q", want)}
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

// checkValues compares the merged values of the modules that are there. It asks their owners,
// because values are in no status.
func (p *play) checkValues(want match.Tree) []string {
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
		switch status := p.Operator.Inspector().Status("operator/" + path).(type) {
		case view.ModuleStatus:
			got[key] = status.Section.Merged()
		case view.GlobalStatus:
			got[key] = status.Section.Merged()
		}
	}
	return match.Difference("", want, got)
}

// checkConfigMap compares keys of the ConfigMap: a text with a text, except for space around it,
// and a tree with the YAML of the key. null wants no key.
func checkConfigMap(data map[string]string, want match.Tree) (problems []string) {
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
				problems = append(problems, fmt.Sprintf("%s must be %s, is %q", key, match.Short(w), text))
				continue
			}
			problems = append(problems, match.Difference(key, w, got)...)
		}
	}
	return problems
}

// find looks for objects by kind and name; an absent apiVersion, namespace or name means any. alike
// names all objects of the kind, for the message when none is found.
func find(objects []map[string]any, r Reference) (found []map[string]any, alike []string) {
	for _, object := range objects {
		meta, _ := object["metadata"].(map[string]any)
		if object["kind"] != r.Kind || r.APIVersion != "" && object["apiVersion"] != r.APIVersion {
			continue
		}
		other, _ := meta["namespace"].(string)
		if (r.Name == "" || meta["name"] == r.Name) && (r.Namespace == "" || r.Namespace == other) {
			found = append(found, object)
		}
		alike = append(alike, match.Identity(object))
	}
	return found, alike
}

// referenceOf is the name of an expected object, as far as it has one. Matchers in place of a name
// or namespace are no texts, and so any object of the kind may match.
func referenceOf(object match.Tree) (r Reference) {
	meta, _ := object["metadata"].(map[string]any)
	r.APIVersion, _ = object["apiVersion"].(string)
	r.Kind, _ = object["kind"].(string)
	r.Namespace, _ = meta["namespace"].(string)
	r.Name, _ = meta["name"].(string)
	return r
}

// checkObjects wants at least one object like each entry, or as many as $count says. If none is
// like it, the problem shows the differences of the object that has the fewest. objects is only
// called when something is wanted: it copies all that there are.
func checkObjects(objects func() []map[string]any, want []match.Tree) (problems []string) {
	for _, w := range want {
		r := referenceOf(w)
		found, alike := find(objects(), r)
		r.APIVersion = "" // messages name objects by kind and name
		w = maps.Clone(w)
		count, counted := w["$count"]
		delete(w, "$count")
		var matched []string
		var nearest []string
		for _, object := range found {
			problems := match.Difference(r.String(), w, match.WithTexts(object))
			if len(problems) == 0 {
				matched = append(matched, match.Identity(object))
			} else if nearest == nil || len(problems) < len(nearest) {
				nearest = problems
			}
		}
		switch {
		case counted && !match.Same(count, int64(len(matched))):
			problems = append(problems, fmt.Sprintf("there must be %v %s like it, there are %d: %v", count, r, len(matched), matched))
		case counted || len(matched) > 0:
		case nearest == nil:
			problems = append(problems, fmt.Sprintf("there is no %s; there are %v", r, alike))
		default:
			problems = append(problems, nearest...)
		}
	}
	return problems
}

func checkAbsent(objects func() []map[string]any, want []Reference) (problems []string) {
	for _, r := range want {
		found, _ := find(objects(), r)
		for _, got := range found {
			problems = append(problems, fmt.Sprintf("%s must not be there", match.Identity(got)))
		}
	}
	return problems
}

// checkModules compares phases. A module without an actor counts as disabled, as any does while no
// operator runs.
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
