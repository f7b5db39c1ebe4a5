package scenario

import (
	"fmt"
	"strings"

	"addon-operator/actors/scenario/match"
)

// checkHooks compares the runs since the last expect. Runs that no entry wants are no problem,
// except where an entry says how many there must be.
func (p *play) checkHooks(want []run) []string {
	got := p.recorder.takeRuns()
	p.seen = append(p.seen, got...)
	return match.Unmatched(want, got, "run")
}

// String names the run for messages.
func (w run) String() string { return strings.TrimSpace(w.Hook + " " + w.Binding) }

func (w run) Exactly() *int { return w.Times }

// Unlike lists how a run differs from what is wanted; isIt is false when it is one of
// another hook or binding.
func (w run) Unlike(r hookRun) (list []string, isIt bool) {
	binding := r.binding()
	if !isFile(r.hook, w.Hook) || w.Binding != "" && w.Binding != binding {
		return nil, false
	}
	if w.Context != nil {
		list = append(list, match.Difference("context", w.Context, r.contexts[len(r.contexts)-1])...)
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

// listDifference compares a list that may be nil; null, or nothing, wants nothing. [] wants it to
// be empty.
func listDifference(place string, want match.Value, got []any) []string {
	if want.Any == nil {
		return nil
	}
	if got == nil {
		got = []any{}
	}
	return match.Difference(place, want.Any, got)
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
