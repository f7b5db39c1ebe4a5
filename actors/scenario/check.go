package scenario

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/actors"
	"addon-operator/helm"
	"addon-operator/helm/manifest"
	"addon-operator/hooks"
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
	report("hooks", unmatched(e.Hooks, runs, "run"))
	report("commands", p.commands.check(e.Commands))
	report("values", Difference("", e.Values, s.values))
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
	e.Visit(func(path string, published fmt.Stringer) {
		name := path[strings.LastIndex(path, "/")+1:]
		switch status := published.(type) {
		case view.ModuleStatus:
			s.phases[name] = string(status.Phase)
			add(name, status.Section, status.Failing)
		case view.GlobalStatus:
			add(messages.GlobalHooks, status.Section, status.Failing)
		case supervisor.RunStatus: // of converge, which publishes no list
			if strings.Contains(path, "/"+messages.Converge+"/run/") && !status.RetryAt.IsZero() {
				s.failing[messages.Converge] += status.Error + "\n"
			}
		}
	})
	return s
}

// noteField notes a field of an object that an API server would drop, or a value that it would refuse.
// The API server calls it in the goroutine of the request, with its lock held.
func (p *play) noteField(object map[string]any, wrong apiserver.FieldProblem) {
	text := identity(object)
	if release := releaseOf(object); release != "" {
		text += ", of the release " + release
	}
	text += ": " + wrong.String()
	p.fields.Store(text, true)
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
		if len(Difference("", asked, log)) > 0 {
			problems = append(problems, fmt.Sprintf("the log does not match %s:\n%s", short(w), log))
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
	return append(problems, Difference("", wanted, got)...)
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
	return Difference("", want, got)
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
			if alike = append(alike, identity(object)); !isNamed(object, w) {
				continue
			}
			problems := Difference(r.String(), w, withTexts(object))
			if len(problems) == 0 {
				matched = append(matched, identity(object))
			} else if nearest == nil || len(problems) < len(nearest) {
				nearest = problems
			}
		}
		switch {
		case counted && !same(count, int64(len(matched))):
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
	return Difference("", want, phases)
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
			texts = append(texts, short(all[len(all)-1]))
		}
	}
	for _, w := range want {
		if len(Difference("", map[string]any{"$contains": w}, all)) > 0 {
			there := strings.Join(texts, "\n    ")
			problems = append(problems, fmt.Sprintf("there is no metric like %s; there are:\n    %s", short(w), there))
		}
	}
	return problems
}

// checkRendered compares all objects of the release of the module with a golden file. It takes them
// from the cluster, so they are as the API server has stored them, with changes by hooks.
func (p *play) checkRendered(objects []map[string]any, name string) []string {
	if name == "" {
		return nil
	}
	got, err := rendered(objects, nameOf(p.scenario.unit.module))
	if err != nil {
		return []string{err.Error()}
	}
	path := filepath.Join(filepath.Dir(p.scenario.path), name)
	if p.options.Update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			return []string{err.Error()}
		}
		return nil
	}
	want, err := os.ReadFile(path)
	switch {
	case err != nil:
		return []string{fmt.Sprintf("%v; run the test with --update to write it", err)}
	case string(want) == got:
		return nil
	}
	diff := manifest.UnifiedTexts(string(want), got, name, "rendered now")
	return []string{"the objects differ; --update rewrites the file\n" + diff}
}

// rendered are the objects of the release as documents of YAML, sorted by their text, without what
// differs from play to play and without what is the same in all of them. It changes the objects,
// which are copies.
func rendered(objects []map[string]any, release string) (string, error) {
	var documents []string
	for _, object := range objects {
		if releaseOf(object) != release {
			continue
		}
		for _, field := range [][]string{
			{"uid"}, {"resourceVersion"}, {"creationTimestamp"}, {"generation"}, {"labels", helm.MarkLabel},
			{"annotations", "meta.helm.sh/release-name"}, {"annotations", "meta.helm.sh/release-namespace"},
		} {
			unstructured.RemoveNestedField(object, append([]string{"metadata"}, field...)...)
		}
		if u := (&unstructured.Unstructured{Object: object}); len(u.GetAnnotations()) == 0 {
			u.SetAnnotations(nil)
		}
		text, err := values.YAML(object)
		if err != nil {
			return "", fmt.Errorf("%s: %w", identity(object), err)
		}
		documents = append(documents, string(text))
	}
	slices.Sort(documents)
	return strings.Join(documents, "---\n"), nil
}

// matchers are what may stand in the place of a value. A map whose keys are all names of matchers
// is not compared: each of them must match. Each lists why got does not match; an absent key counts as null.
func matchers() map[string]func(place string, want, got any) []string {
	return map[string]func(place string, want, got any) []string{
		"$contains": matchContains, "$count": matchCount, "$jq": matchJQ, "$not": matchNot, "$regex": matchText,
	}
}

// asMatchers reports whether a value is matchers: a map with nothing but names of them, and not an
// empty one, which is an ordinary map that any map fits.
func asMatchers(want any) (map[string]any, bool) {
	w, ok := want.(map[string]any)
	if !ok || len(w) == 0 {
		return nil, false
	}
	known := matchers()
	for key := range w {
		if _, ok := known[key]; !ok {
			return nil, false
		}
	}
	return w, true
}

// checkMatchers finds matchers that cannot match, and keys that look like misspelt ones: those that
// begin with $ and are near to a matcher. Other keys with $ are fields, as in a JSON Schema that a
// ConfigMap holds.
func checkMatchers(path []string, want any, report func(path []string, text string)) {
	switch w := want.(type) {
	case []any:
		for i := range w {
			checkMatchers(append(slices.Clone(path), strconv.Itoa(i)), w[i], report)
		}
	case map[string]any:
		known := matchers()
		names := slices.Sorted(maps.Keys(known))
		for _, key := range slices.Sorted(maps.Keys(w)) {
			at := append(slices.Clone(path), key)
			_, is := known[key]
			_, alone := asMatchers(w)
			switch best := values.Nearest(key, names); {
			case key == "$count" && w["kind"] != nil: // how many objects there must be, not how a field of one is
			case is && !alone:
				report(at, fmt.Sprintf("%s is a matcher, but there are other keys next to it; write it below the key that it applies to", key))
			case is:
				if err := wrongArgument(key, w[key]); err != nil {
					report(at, key+": "+err.Error())
				}
			case strings.HasPrefix(key, "$") && best != "":
				report(at, fmt.Sprintf("%s is unknown; did you mean %s?", key, best))
			}
			checkMatchers(at, w[key], report)
		}
	}
}

// Difference lists where got is not what is wanted, each place with both. The comparison is
// partial: of a map, only the keys that are wanted count, at every depth, and null is wanted where
// a key must be absent. A list must have the length of the wanted one, and each element is compared
// with the one at its place. place is how authors write the place: spec.ports[0].
func Difference(place string, want, got any) []string {
	if asked, ok := asMatchers(want); ok {
		known := matchers()
		var list []string
		for _, key := range slices.Sorted(maps.Keys(asked)) {
			list = append(list, known[key](place, asked[key], got)...)
		}
		return list
	}
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			return mapDifference(place, w, g)
		}
		problem := unlike(place, want, got)
		if keys := slices.Collect(maps.Keys(w)); len(keys) == 1 && strings.HasPrefix(keys[0], "$") {
			problem += fmt.Sprintf("; matchers are %v", slices.Sorted(maps.Keys(matchers())))
		}
		return []string{problem}
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return []string{unlike(place, want, got)}
		}
		var list []string
		for i := range w {
			list = append(list, Difference(fmt.Sprintf("%s[%d]", place, i), w[i], g[i])...)
		}
		return list
	}
	if !same(want, got) {
		return []string{unlike(place, want, got)}
	}
	return nil
}

// mapDifference compares the keys that are wanted. Where one is missing, the difference shows which
// keys there are: most often it is misspelt.
func mapDifference(place string, want, got map[string]any) (list []string) {
	for _, key := range slices.Sorted(maps.Keys(want)) {
		for _, problem := range Difference(keyed(place, key), want[key], got[key]) {
			if n := len(got); got[key] == nil && n > 0 && n <= 12 {
				problem += fmt.Sprintf("; there are %v", slices.Sorted(maps.Keys(got)))
			}
			list = append(list, problem)
		}
	}
	return list
}

// keyed is the place of a key, in quotes if it has other letters than those of names, as the
// annotation meta.helm.sh/release-name.
func keyed(place, key string) string {
	if regexp.MustCompile(`[^A-Za-z0-9_-]`).MatchString(key) {
		return place + "[" + strconv.Quote(key) + "]"
	}
	if place == "" {
		return key
	}
	return place + "." + key
}

// wrongArgument says why a matcher can never match.
func wrongArgument(name string, want any) (err error) {
	text, isText := want.(string)
	asked, _ := want.(map[string]any)
	n, isNumber := number(want)
	switch {
	case name == "$count" && (!isNumber || n < 0 || n != float64(int(n))):
		return fmt.Errorf("it takes a number, not %s", short(want))
	case name == "$regex" && !isText:
		return fmt.Errorf("it takes a regular expression, not %s", short(want))
	case name == "$regex":
		_, err = regexp.Compile(text)
	case name == "$jq" && len(asked) == 0:
		return fmt.Errorf("it takes a map of jq expressions to their results, not %s", short(want))
	case name == "$jq":
		for jq := range asked {
			_, wrong := hooks.CompileFilter(jq)
			err = cmp.Or(err, wrong)
		}
	}
	return err
}

// matchNot matches where the value, or the matcher, would differ.
func matchNot(place string, want, got any) []string {
	if len(Difference(place, want, got)) == 0 {
		return []string{fmt.Sprintf("%s must not be %s, is %s", cmp.Or(place, "it"), short(want), short(got))}
	}
	return nil
}

// matchContains looks for a text in a text, or for an element in a list. Several elements are a
// list.
func matchContains(place string, want, got any) []string {
	has := func(part any) bool {
		switch g := got.(type) {
		case string:
			text, ok := part.(string)
			return ok && strings.Contains(g, text)
		case []any:
			return slices.ContainsFunc(g, func(element any) bool { return len(Difference(place, part, element)) == 0 })
		}
		return false
	}
	parts, several := want.([]any)
	if !several {
		parts = []any{want}
	}
	for _, part := range parts {
		if !has(part) {
			return []string{fmt.Sprintf("%s must contain %s, is %s", cmp.Or(place, "it"), short(part), short(got))}
		}
	}
	return nil
}

// matchCount counts elements, keys, or letters; what is absent has none.
func matchCount(place string, want, got any) []string {
	count := 0
	switch g := got.(type) {
	case []any:
		count = len(g)
	case map[string]any:
		count = len(g)
	case string:
		count = utf8.RuneCountInString(g)
	case nil:
	default:
		return []string{fmt.Sprintf("%s cannot be counted: it is %s", place, short(got))}
	}
	if !same(want, int64(count)) {
		return []string{fmt.Sprintf("%s must count %s, counts %d: %s", cmp.Or(place, "it"), short(want), count, short(got))}
	}
	return nil
}

// matchJQ compares what each jq expression yields. The filters of hooks take objects only, so the value becomes a
// field of one.
func matchJQ(place string, want, got any) (list []string) {
	asked, _ := want.(map[string]any)
	for _, jq := range slices.Sorted(maps.Keys(asked)) {
		at := strings.TrimSpace(place + " | " + jq)
		var text []byte
		filter, err := hooks.CompileFilter(".value | " + jq)
		if err == nil {
			text, err = filter.Apply(map[string]any{"value": got})
		}
		result, wrong := values.ParseJSON(text)
		if err = cmp.Or(err, wrong); err != nil {
			list = append(list, fmt.Sprintf("%s: %v", at, err))
			continue
		}
		list = append(list, Difference(at, asked[jq], result)...)
	}
	return list
}

// matchText searches a text for the expression; another value is searched as JSON, so that
// {$regex: "^3"} fits the number 3.
func matchText(place string, want, got any) []string {
	pattern, _ := want.(string)
	expression, err := regexp.Compile(pattern)
	if err != nil {
		return []string{fmt.Sprintf("%s: $regex: %v", place, err)}
	}
	text, ok := got.(string)
	if !ok {
		text = short(got)
	}
	if got == nil || !expression.MatchString(text) {
		return []string{fmt.Sprintf("%s must match %s, is %s", cmp.Or(place, "it"), pattern, short(got))}
	}
	return nil
}

func unlike(place string, want, got any) string {
	return fmt.Sprintf("%s must be %s, is %s", cmp.Or(place, "it"), short(want), short(got))
}

// same compares scalars; 1 and 1.0 are the same number. Maps and lists never come here, which Go
// could not compare: Difference handles what is wanted as one, and a wanted scalar is of another
// type than a map or list that is there.
func same(a, b any) bool {
	x, isNumber := number(a)
	y, too := number(b)
	if isNumber && too {
		return x == y
	}
	return a == b
}

// number is a number in any of the types that decoders make. Integers above 2⁵³ may equal their
// neighbours.
func number(value any) (float64, bool) {
	switch n := value.(type) {
	case int64:
		return float64(n), true
	case float64:
		return n, true
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	}
	return 0, false
}

// short is a value for a message: its JSON, cut after 300 bytes. null is said as authors mean it.
func short(value any) string {
	if value == nil {
		return "absent"
	}
	data, err := values.JSON(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return values.Shorten(string(data), 300)
}

// withTexts returns an object whose Secret data can be compared as stringData, too, so that authors
// write no base64.
func withTexts(object map[string]any) map[string]any {
	data, ok := object["data"].(map[string]any)
	if object["kind"] != "Secret" || !ok {
		return object
	}
	texts := map[string]any{}
	for key, value := range data {
		encoded, _ := value.(string)
		if text, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			texts[key] = string(text)
		}
	}
	out := maps.Clone(object)
	out["stringData"] = texts
	return out
}

// identity names an object: "v1 Secret default/a".
func identity(object map[string]any) string {
	meta, _ := object["metadata"].(map[string]any)
	name := fmt.Sprint(meta["name"])
	if namespace, _ := meta["namespace"].(string); namespace != "" {
		name = namespace + "/" + name
	}
	return fmt.Sprintf("%v %v %s", object["apiVersion"], object["kind"], name)
}

// happened is a run of a hook, or a call of a stand-in.
type happened interface {
	String() string
	// Unlike lists how it differs from what is wanted; isIt is false when it is another one altogether.
	Unlike(want map[string]any) (list []string, isIt bool)
}

// unmatched finds for each entry runs of hooks, or calls of stand-ins, that are like it. An entry without times takes
// one, so that two equal entries want two; one with times takes all that are like it. Entries choose in their order
// and the order of runs does not matter, so a narrow entry belongs before a wide one. If none is like an entry, the
// problem shows the differences of the one that has the fewest.
func unmatched[G happened](want []map[string]any, got []G, what string) (problems []string) {
	left := slices.Clone(got)
	for i, w := range want {
		times, exactly := number(w["times"])
		w = maps.Clone(w)
		delete(w, "times")
		place := fmt.Sprintf("[%d] %s", i, short(w))
		var nearest []string
		matched := 0
		left = slices.DeleteFunc(left, func(g G) bool {
			differences, isIt := g.Unlike(w)
			switch {
			case !isIt || matched > 0 && !exactly:
				return false
			case len(differences) > 0:
				if nearest == nil || len(differences) < len(nearest) {
					nearest = differences
				}
				return false
			}
			matched++
			return true
		})
		switch {
		case exactly && matched != int(times):
			text := fmt.Sprintf("%s: there must be %v such %ss, there are %d; ", place, times, what, matched)
			problems = append(problems, text+were(got))
		case exactly || matched > 0:
		case nearest != nil:
			problems = append(problems, fmt.Sprintf("%s: the most similar %s differs:\n    %s", place, what, strings.Join(nearest, "\n    ")))
		default:
			problems = append(problems, fmt.Sprintf("%s: there is no such %s; %s", place, what, were(got)))
		}
	}
	return problems
}

// were lists all runs or calls, those that other entries have taken, too.
func were[G happened](got []G) string {
	if len(got) == 0 {
		return "there was none"
	}
	text := "there were:"
	for _, g := range got {
		text += "\n    " + g.String()
	}
	return text
}
