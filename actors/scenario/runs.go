package scenario

import (
	"fmt"
	"slices"
	"strings"
)

// checkHooks compares the runs since the last expect. Runs that no entry wants are no problem,
// except where an entry says how many there must be.
func (p *play) checkHooks(want []run) []string {
	got := p.recorder.takeRuns()
	p.seen = append(p.seen, got...)
	if p.options.Coverage {
		if err := p.exercised.ran(got, p.Cluster.Server.Objects()); err != nil {
			return []string{err.Error()}
		}
	}
	want = slices.Clone(want)
	for i := range want {
		want[i].compare = func(name, text string) []string {
			return p.goldens.compare(name, text, "the input or output of the hook differs", "now")
		}
	}
	return unmatched(want, got, "run")
}

// wanted is an expected run of a hook, or call of a stand-in.
type wanted[G any] interface {
	String() string // for messages
	times() *int    // exactly so many; nil: one, if there are more, too
	// unlike lists how one differs from what is wanted; isIt is false when it is another one
	// altogether.
	unlike(got G) (list []string, isIt bool)
}

// unmatched finds for each entry runs or calls that are like it. An entry without times takes one,
// so that two equal entries want two; one with times takes all that are like it. Entries choose in
// their order and the order of runs does not matter, so a narrow entry belongs before a wide one.
// If none is like an entry, the problem shows the differences of the one that has the fewest.
func unmatched[G fmt.Stringer, W wanted[G]](want []W, got []G, what string) (problems []string) {
	left := slices.Clone(got)
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
			if w.times() == nil {
				break
			}
		}
		switch times := w.times(); {
		case times != nil && matched != *times:
			problems = append(problems, fmt.Sprintf("%s: there must be %d such %ss, there are %d; %s", place, *times, what, matched, were(got, what)))
		case times == nil && matched == 0 && nearest != nil:
			problems = append(problems, fmt.Sprintf("%s: the most similar %s differs:\n    %s", place, what, strings.Join(nearest, "\n    ")))
		case times == nil && matched == 0:
			problems = append(problems, fmt.Sprintf("%s: there is no such %s; %s", place, what, were(got, what)))
		}
	}
	return problems
}

// were lists all runs or calls, those that other entries have taken, too.
func were[G fmt.Stringer](got []G, what string) string {
	var lines []string
	for _, g := range got {
		lines = append(lines, "    "+g.String())
	}
	switch {
	case what != "run" && len(lines) == 0:
		return "there was none"
	case what != "run":
		return "there were:\n" + strings.Join(lines, "\n")
	case len(lines) == 0:
		return "no hook ran"
	}
	return "these ran:\n" + strings.Join(lines, "\n")
}

// String names the run for messages.
func (w run) String() string { return strings.TrimSpace(w.Hook + " " + w.Binding) }

func (w run) times() *int { return w.Times }

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
	// Only a run that fits otherwise: with --update the file is written here.
	if w.Golden != "" && len(list) == 0 {
		text, err := goldenRun(r)
		if err != nil {
			return []string{err.Error()}, true
		}
		list = append(list, w.compare(w.Golden, text)...)
	}
	return list, true
}

// listDifference compares a list that may be nil; null, or nothing, wants nothing. [] wants it to
// be empty.
func listDifference(place string, want value, got []any) []string {
	if want.any == nil {
		return nil
	}
	if got == nil {
		got = []any{}
	}
	return difference(place, want.any, got)
}

// binding is that of the last context. Earlier ones are those of triggers that waited and were
// merged into the run.
func (r hookRun) binding() string { return bindingOf(r.contexts[len(r.contexts)-1]) }

// bindingOf is the name of the binding, or of the group, that a context is of.
func bindingOf(context any) string {
	c, _ := context.(map[string]any)
	name, _ := c["binding"].(string)
	if group, ok := c["groupName"].(string); ok && name == "" {
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
