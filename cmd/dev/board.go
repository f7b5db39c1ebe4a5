package dev

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"addon-operator/messages"
	"addon-operator/messages/view"
)

// maxOutput bounds the lines that are kept of a hook until it ends, and maxRuns the runs whose
// lines are kept: not every run is reported as ended.
const (
	maxOutput = maxDetail
	maxRuns   = 100
)

// board is the state of the operator. Only the loop of the session uses it. The keys of its maps are
// the name of a module, or messages.GlobalHooks, unless a comment describes others.
type board struct {
	// ready: the first converge is over. It stays true when the operator starts again.
	ready bool
	// page is the address of the operator's page; "" until it has begun.
	page string
	// modules are those of the last answer, and order is the order of that answer.
	modules  map[string]moduleState
	order    []string
	ran      map[string]time.Time // when the last run began that was shown
	released map[string]int       // the newest revision of each release
	// output is what hooks have printed so far, by record.run. hookRan takes it.
	output   map[string][]string
	scripts  []record // output of scripts whose end is not reported, since pagesAsked
	unkept   int      // how many more lines they printed
	printing []string // the runs of output, the oldest first
	// runs has the last run of each hook, by runKey.
	runs map[string]view.HookRun
	// findings are those of lint, which also covers modules that the operator cannot load.
	findings map[string][]finding
}

func newBoard() *board {
	return &board{
		modules: map[string]moduleState{}, ran: map[string]time.Time{}, released: map[string]int{}, output: map[string][]string{},
		runs: map[string]view.HookRun{}, findings: map[string][]finding{},
	}
}

// logged takes a record of the log. since is the revision that a new one of its module replaces,
// and 0 when the record is about no new revision, or about the first.
func (b *board) logged(r record) (facts []fact, since int) {
	if r.isOutput() {
		if r.ends() {
			b.printed(r.run(), r.text("msg"))
		} else {
			b.scriptPrinted(r)
		}
		return nil, 0
	}
	if r.text("msg") == "release" {
		module, revision := r.text("module"), r.number("revision")
		// The first revision that is seen may be that of a release which is older than this
		// process: it replaces the one before it. A record about a revision that is known already
		// is about no new one.
		if since = b.released[module]; since == 0 {
			since = revision - 1
		}
		b.released[module] = revision
		if since == revision {
			since = 0
		}
	}
	if f, ok := r.fact(); ok {
		facts = append(facts, f)
	}
	return facts, since
}

// printed keeps a line that a run has printed, until it ends. Above maxRuns the oldest run makes
// room.
func (b *board) printed(run, line string) {
	lines, known := b.output[run]
	if !known {
		// hookRan removes only the output of a run, so its name is removed here.
		b.printing = append(slices.DeleteFunc(b.printing, func(r string) bool { _, kept := b.output[r]; return !kept }), run)
		if len(b.printing) > maxRuns {
			delete(b.output, b.printing[0])
		}
	}
	if len(lines) < maxOutput {
		b.output[run] = append(lines, line)
	}
}

// scriptPrinted keeps a line of an enabled script or of --config, whose end is not reported, until
// the pages are read the next time.
func (b *board) scriptPrinted(r record) {
	if len(b.scripts) >= maxOutput {
		b.unkept++
		return
	}
	b.scripts = append(b.scripts, r)
}

// scriptFacts returns what such scripts have printed since the last call, one fact for each script,
// in the order of their first lines.
func (b *board) scriptFacts() (facts []fact) {
	for len(b.scripts) > 0 {
		first := b.scripts[0]
		var lines []string
		b.scripts = slices.DeleteFunc(b.scripts, func(r record) bool {
			same := r.run() == first.run()
			if same {
				lines = append(lines, r.text("msg"))
			}
			return same
		})
		who := first.text("hook")
		if first.text("binding") != "enabled" {
			who += " --config"
		}
		facts = append(facts, newFact(aboutHook, first.text("module"), fmt.Sprintf("%s printed %s", who, view.Count(len(lines), "line")), lines...))
	}
	if b.unkept > 0 {
		facts = append(facts, newFact(aboutHook, "", view.Count(b.unkept, "line")+" of enabled scripts and --config are not shown").bad())
		b.unkept = 0
	}
	return facts
}

// hookRan takes the end of a hook, and returns it with all that the hook has printed, whose records
// come before it. hide removes secrets from the error, which does not pass through the log.
func (b *board) hookRan(r view.HookRun, hide func(string) string) fact {
	b.runs[runKey(r.Owner, r.Hook)] = r
	name := r.Contexts[0].Binding
	printed := record{"task": r.Task, "hook": r.Hook, "binding": name}.run()
	lines := b.output[printed]
	delete(b.output, printed)
	text := fmt.Sprintf("%s (%s) took %s", r.Hook, contextsText(r), r.Took.Round(time.Millisecond))
	if n := len(lines); n > 0 {
		text += ", " + view.Count(n, "line")
	}
	f := newFact(aboutHook, messages.ModuleOf(r.Owner), text, lines...)
	if r.Err != nil {
		why := hide(r.Err.Error())
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.Contains(why, line) }) // the error quotes the last lines
		f = newFact(aboutHook, f.Module, text+": failed\n"+why, lines...).bad()
	}
	return f
}

// contextsText names the bindings of a run, each once with its type, such as "nodes
// Synchronization".
func contextsText(r view.HookRun) string {
	var names []string
	for _, c := range r.Contexts {
		name := c.Binding
		if c.Type != "" {
			name += " " + string(c.Type)
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// runKey is the key of board.runs. Names of owners have no space.
func runKey(owner, hook string) string { return owner + " " + hook }

// answered takes an answer of the pages of the operator, and returns what differs from the last
// one.
func (b *board) answered(a answers) (facts []fact) {
	if a.Converge.Done && !b.ready {
		facts = append(facts, newFact(aboutStart, "", "the first converge is over"))
	}
	b.ready = b.ready || a.Converge.Done
	places := a.places()
	before := b.modules
	b.modules, b.order = map[string]moduleState{}, nil
	put := func(s moduleState) {
		s.Queue, s.Settled = places[s.Name], s.State
		// A step of a run is no news: whether the state has changed is known when the run is over.
		if s.State == string(view.Running) || s.State == string(view.Starting) || s.State == string(view.Waiting) {
			s.Settled = before[s.Name].Settled
		}
		facts = append(facts, changes(before[s.Name], s)...)
		b.modules[s.Name], b.order = s, append(b.order, s.Name)
	}
	for _, m := range a.List.Modules {
		if f, ran := b.ranFact(m); ran {
			facts = append(facts, f)
		}
		put(stateOf(m, b.findings[m.Name]))
	}
	if g := a.List.Global; g.Hooks > 0 || len(a.List.GlobalProblems) > 0 {
		put(globalState(g, a.List.GlobalProblems, b.findings[messages.GlobalHooks]))
	}
	for name := range before {
		if _, there := b.modules[name]; !there {
			facts = append(facts, newFact(aboutState, name, "was removed"))
		}
	}
	return facts
}

// ranFact returns the run of a module that has ended since the last answer. Runs between two
// answers show as one, the last.
func (b *board) ranFact(m listed) (fact, bool) {
	if m.LastRun == nil || m.LastRun.Release == "" || !m.LastRun.Began.After(b.ran[m.Name]) {
		return fact{}, false
	}
	b.ran[m.Name] = m.LastRun.Began
	text := "ran"
	if took := m.Succeeded.Sub(m.LastRun.Began); took > 0 {
		text += " in " + took.Round(time.Millisecond).String()
	}
	text += ": " + m.LastRun.Release
	var causes []string
	for _, cause := range m.LastRun.Causes {
		causes = append(causes, "because of "+cause.String())
	}
	return newFact(aboutRun, m.Name, text, causes...), true
}

// hooksOf returns the hooks of an owner that have run, which are those that can be run again.
func (b *board) hooksOf(owner string) (names []string) {
	for _, r := range b.runs {
		if r.Owner == owner {
			names = append(names, r.Hook)
		}
	}
	slices.Sort(names)
	return names
}

// rendered returns what a new revision changes, one fact for each object.
func (b *board) rendered(d difference) (facts []fact) {
	for _, c := range d.changes {
		facts = append(facts, newFact(aboutDiff, d.module, c.Object+" is "+c.Action, strings.Split(strings.TrimRight(c.Diff, "\n"), "\n")...))
	}
	if d.err != nil {
		facts = append(facts, newFact(aboutDiff, d.module, "changes are unknown: "+d.err.Error()).bad())
	} else if len(facts) == 0 {
		facts = append(facts, newFact(aboutDiff, d.module, "the rendered objects have not changed"))
	}
	return facts
}

// linted takes the findings of lint in a module, and returns the new and the fixed ones. Without
// either it still reports that lint has run: the author waits for an answer to the save.
func (b *board) linted(l linted) (facts []fact) {
	if l.err != nil { // nothing was looked at, so what was found is not gone
		return []fact{newFact(aboutLint, l.module, l.err.Error()).bad()}
	}
	was := b.findings[l.module]
	b.findings[l.module] = l.found
	has := func(all []finding, one finding) bool {
		return slices.ContainsFunc(all, func(f finding) bool { return f.printed == one.printed })
	}
	same := 0
	for _, f := range l.found {
		if has(was, f) && !l.first {
			same++
			continue
		}
		fact := newFact(aboutLint, l.module, strings.TrimRight(f.printed, "\n"))
		fact.Bad = f.bad
		facts = append(facts, fact)
	}
	for _, f := range was {
		if !has(l.found, f) {
			facts = append(facts, newFact(aboutLint, l.module, "no longer reported: "+f.line))
		}
	}
	switch {
	case len(facts) > 0 || l.first:
	case same > 0:
		facts = append(facts, newFact(aboutLint, l.module, view.Count(same, "finding")+", unchanged"))
	default:
		facts = append(facts, newFact(aboutLint, l.module, "no findings"))
	}
	return facts
}

// state returns what is shown at this moment. The receiver changes Problems, so they are copied.
func (b *board) state() state {
	s := state{Ready: b.ready, Page: b.page}
	for _, name := range b.order {
		m := b.modules[name]
		m.Excerpt, m.Hooks, m.Problems = excerpts(b.findings[name]), b.hooksOf(name), slices.Clone(m.Problems)
		s.Modules = append(s.Modules, m)
	}
	return s
}

// lastRun is the last run of a hook.
func (b *board) lastRun(owner, hook string) (view.HookRun, bool) {
	r, ok := b.runs[runKey(owner, hook)]
	return r, ok
}

// forget drops what is known of modules that are gone: a session may last for days. Before the
// first converge is over no module counts as gone, because a list may be incomplete.
func (b *board) forget() {
	gone := func(name string) bool {
		_, there := b.modules[name]
		return b.ready && !there && name != messages.GlobalHooks
	}
	maps.DeleteFunc(b.ran, func(name string, _ time.Time) bool { return gone(name) })
	maps.DeleteFunc(b.released, func(name string, _ int) bool { return gone(name) })
	maps.DeleteFunc(b.runs, func(_ string, r view.HookRun) bool { return gone(r.Owner) })
}
