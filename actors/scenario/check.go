package scenario

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
	s, objects, runs := look(p.Engine), p.Cluster.Server.Objects(), p.recorder.takeRuns()
	p.seen = append(p.seen, runs...)
	report("refused", checkRefused(p.Engine, e.Refused))
	report("failing", checkFailing(s.failing, e.Failing))
	report("hooks", match.Unmatched(e.Hooks, runs, "run"))
	report("commands", p.commands.check(e.Commands))
	report("values", match.Difference("", e.Values, s.values))
	report("configMap", checkConfigMap(p.Cluster.ConfigMap.Data(), e.ConfigMap))
	report("objects", checkObjects(objects, e.Objects))
	report("absent", checkObjects(objects, absent(e.Absent)))
	report("rendered", p.checkRendered(objects, e.Rendered))
	report("metrics", checkMetrics(p.Operator, e.Metrics))
	report("modules", checkModules(s.phases, e.Modules))
	report("log", checkLog(p.Trace.String(), e.Log))
}

// shown is what actors publish of themselves.
type shown struct {
	values  map[string]any    // the merged ones, by section
	phases  map[string]any    // by module
	failing map[string]string // the errors of tasks that wait for their next attempt, by owner, as in expect.failing
}

func look(e *Engine) shown {
	s := shown{map[string]any{}, map[string]any{}, map[string]string{}}
	add := func(owner string, section *values.Section, tasks []view.FailingTask) {
		if section != nil {
			s.values[section.Key()] = section.Merged()
		}
		for _, t := range tasks {
			s.failing[owner] += t.Task + ": " + t.Error + "\n"
		}
	}
	e.Visit(func(n *supervisor.Node) {
		name := n.Path[strings.LastIndex(n.Path, "/")+1:]
		switch status := n.Status.(type) {
		case view.ModuleStatus:
			s.phases[name] = string(status.Phase)
			add(name, status.Section, status.Failing)
		case view.GlobalStatus:
			add(messages.GlobalHooks, status.Section, status.Failing)
		case supervisor.RunStatus: // of converge, which publishes no list
			if strings.Contains(n.Path, "/"+messages.Converge+"/run/") && !status.RetryAt.IsZero() {
				s.failing[messages.Converge] += status.Error + "\n"
			}
		}
	})
	return s
}

// noteField notes a field of an object that an API server would drop, or a value that it would refuse.
// The API server calls it in the goroutine of the request, with its lock held.
func (p *play) noteField(object map[string]any, wrong apiserver.FieldProblem) {
	text := match.Identity(object)
	if release := releaseOf(object); release != "" {
		text += ", of the release " + release
	}
	text += ": " + wrong.String()
	p.fields.Change(func(noted []string) []string {
		if slices.Contains(noted, text) {
			return noted
		}
		return append(slices.Clip(noted), text)
	})
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
func checkLog(log string, want []any) (problems []string) {
	for _, w := range want {
		matcher, asMatchers := w.(map[string]any)
		unwanted, isText := matcher["$not"].(string)
		asked := w
		switch { // as everywhere here, a text is a part of the log
		case !asMatchers:
			asked = map[string]any{"$contains": w}
		case isText:
			asked = map[string]any{"$not": map[string]any{"$contains": unwanted}}
		}
		if len(match.Difference("", asked, log)) > 0 {
			problems = append(problems, fmt.Sprintf("the log does not match %s:\n%s", match.Short(w), log))
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
	case !strings.Contains(reason, want):
		return []string{fmt.Sprintf("it must be refused with %q, is refused with %q", want, reason)}
	}
	return nil
}

// checkFailing wants every task to succeed that is not expected to fail.
func checkFailing(failing, want map[string]string) (problems []string) {
	wanted, got := map[string]any{}, map[string]any{}
	for owner, text := range want {
		wanted[owner] = map[string]any{"$contains": text}
	}
	for _, owner := range slices.Sorted(maps.Keys(failing)) {
		if got[owner] = failing[owner]; wanted[owner] == nil {
			problems = append(problems, owner+" fails: "+strings.TrimSpace(failing[owner]))
		}
	}
	return append(problems, match.Difference("", wanted, got)...)
}

// checkConfigMap compares keys of the ConfigMap: a text with a text, except for space around it,
// and a tree with the YAML of the key. null wants no key.
func checkConfigMap(data map[string]string, want map[string]any) (problems []string) {
	got := map[string]any{}
	for key, text := range data {
		if got[key] = strings.TrimSpace(text); want[key] == nil {
			continue
		}
		switch w := want[key].(type) {
		case string:
			want = maps.Clone(want)
			want[key] = strings.TrimSpace(w)
		default:
			if tree, err := values.ParseYAML([]byte(text)); err == nil {
				got[key] = tree
			}
		}
	}
	return match.Difference("", want, got)
}

// isNamed reports whether an object has the apiVersion, namespace and name of an expected one, as far as that says
// them. Matchers in their place are no texts, and any object of the kind may match.
func isNamed(object, want map[string]any) bool {
	for _, path := range [][]string{{"apiVersion"}, {"metadata", "namespace"}, {"metadata", "name"}} {
		text, given, _ := unstructured.NestedString(want, path...)
		if has, _, _ := unstructured.NestedString(object, path...); given && has != text {
			return false
		}
	}
	return true
}

// checkObjects wants at least one object like each entry, or as many as $count says. If none is
// like it, the problem shows the differences of the object that has the fewest.
func checkObjects(objects, want []map[string]any) (problems []string) {
	for _, w := range want {
		count, counted := w["$count"]
		w = maps.Clone(w)
		delete(w, "$count")
		u := unstructured.Unstructured{Object: w}
		r := Reference{Kind: u.GetKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
		var alike, matched, nearest []string
		for _, object := range objects {
			if object["kind"] != w["kind"] {
				continue
			}
			if alike = append(alike, match.Identity(object)); !isNamed(object, w) {
				continue
			}
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

// absent are references as objects of which there must be none.
func absent(references []Reference) (want []map[string]any) {
	for _, r := range references {
		w := r.Object()
		w["$count"] = int64(0)
		want = append(want, w)
	}
	return want
}

// checkModules compares phases. A module without an actor counts as disabled, as any does while no
// operator runs.
func checkModules(phases, want map[string]any) []string {
	for name := range want {
		phases[name] = cmp.Or(phases[name], any(string(view.Disabled)))
	}
	return match.Difference("", want, phases)
}

// checkMetrics looks for what hooks have reported, as a scrape would show it now. The operator's
// own metrics are not among them.
func checkMetrics(operator *actors.Operator, want []map[string]any) (problems []string) {
	if operator == nil || len(want) == 0 {
		return nil // why it does not run is a problem of its own
	}
	families, err := operator.Metrics().HookRegistry.Gather()
	if err != nil {
		return []string{err.Error()}
	}
	var all []any
	var texts []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]any{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			// It is one of them; the others are 0.
			amount := m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			all = append(all, map[string]any{"name": f.GetName(), "labels": labels, "value": amount})
			texts = append(texts, match.Short(all[len(all)-1]))
		}
	}
	for _, w := range want {
		if len(match.Difference("", map[string]any{"$contains": w}, all)) > 0 {
			there := strings.Join(texts, "\n    ")
			problems = append(problems, fmt.Sprintf("there is no metric like %s; there are:\n    %s", match.Short(w), there))
		}
	}
	return problems
}
