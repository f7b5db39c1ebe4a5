package scenario

import (
	"fmt"
	"slices"
	"strings"
)

// checkHooks finds for each entry runs that are like it. An entry without times takes
// one, so that two equal entries want two.
func (p *play) checkHooks(want []run) (problems []string) {
	left := p.recorder.takeRuns()
	p.seen = append(p.seen, left...)
	if want == nil {
		return nil
	}
	all := slices.Clone(left)
	for i, w := range want {
		place := fmt.Sprintf("[%d] %s", i, w)
		var nearest []string
		matched := 0
		for k := 0; k < len(left); k++ {
			differences, isIt := w.unlike(left[k])
			if !isIt {
				continue
			}
			if len(differences) > 0 {
				if nearest == nil || len(differences) < len(nearest) {
					nearest = differences
				}
				continue
			}
			matched++
			left = slices.Delete(left, k, k+1)
			k--
			if w.Times == nil {
				break
			}
		}
		switch {
		case w.Times != nil && matched != *w.Times:
			problems = append(problems, fmt.Sprintf("%s: there must be %d such runs, there are %d; %s", place, *w.Times, matched, ran(all)))
		case w.Times == nil && matched == 0 && nearest != nil:
			problems = append(problems, fmt.Sprintf("%s: the run that is most alike differs:\n    %s", place, strings.Join(nearest, "\n    ")))
		case w.Times == nil && matched == 0:
			problems = append(problems, fmt.Sprintf("%s: there is no such run; %s", place, ran(all)))
		}
	}
	return problems
}

// String names the run for messages.
func (w run) String() string { return strings.TrimSpace(w.Hook + " " + w.Binding) }

// unlike lists how a run differs from what is wanted; isIt is false when it is one of
// another hook or binding.
func (w run) unlike(r hookRun) (list []string, isIt bool) {
	binding := r.binding()
	if !isFile(r.hook, w.Hook) || w.Binding != "" && w.Binding != binding {
		return nil, false
	}
	if w.Context != nil {
		list = append(list, difference("context", w.Context, r.contexts[len(r.contexts)-1])...)
	}
	list = append(list, listDifference("contexts", w.Contexts, r.contexts)...)
	list = append(list, listDifference("valuesPatch", w.ValuesPatch, r.valuesPatch)...)
	list = append(list, listDifference("configPatch", w.ConfigPatch, r.configPatch)...)
	list = append(list, listDifference("objectPatches", w.ObjectPatches, r.objectPatches)...)
	switch fails := w.Fails.(type) {
	case bool:
		if fails != (r.err != nil) {
			list = append(list, fmt.Sprintf("fails must be %t: %v", fails, r.err))
		}
	case string:
		if r.err == nil || !strings.Contains(r.err.Error(), fails) {
			list = append(list, fmt.Sprintf("it must fail with %q: %v", fails, r.err))
		}
	}
	return list, true
}

func listDifference(place string, want value, got []any) []string {
	if want.any == nil {
		return nil
	}
	if got == nil {
		got = []any{}
	}
	return difference(place, want.any, got)
}

func (r hookRun) binding() string {
	last, _ := r.contexts[len(r.contexts)-1].(map[string]any)
	name, _ := last["binding"].(string)
	if group, ok := last["groupName"].(string); ok && name == "" {
		return group
	}
	return name
}

// String is the run in one line.
func (r hookRun) String() string {
	last, _ := r.contexts[len(r.contexts)-1].(map[string]any)
	text := r.hook + " " + r.binding()
	for _, key := range []string{"type", "watchEvent"} {
		if word, ok := last[key].(string); ok {
			text += " " + word
		}
	}
	if r.err != nil {
		text += " fails: " + r.err.Error()
	}
	return text
}

func ran(runs []hookRun) string {
	if len(runs) == 0 {
		return "no hook ran"
	}
	var lines []string
	for _, r := range runs {
		lines = append(lines, "    "+r.String())
	}
	return "these ran:\n" + strings.Join(lines, "\n")
}
