package dev

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"addon-operator/messages"
	"addon-operator/messages/view"
)

// answers are the contents of the pages of the operator, as far as they are used here. The fields have the
// names of the JSON of these pages.
type answers struct {
	List struct {
		Modules        []listed
		GlobalProblems []string
		Global         view.GlobalStatus
	}
	Queues struct {
		Active []struct {
			Name  string
			Tasks []struct {
				Index       int
				Owner, Kind string
			}
		}
	}
	Converge struct {
		Done bool `json:"STARTUP_CONVERGE_DONE"`
	}
}

// atRest reports whether no task waits or runs and the first converge is over.
func (a answers) atRest() bool {
	for _, q := range a.Queues.Active {
		if len(q.Tasks) > 0 {
			return false
		}
	}
	return a.Converge.Done
}

// listed is a module on the page of modules.
type listed struct {
	Name  string
	State string
	view.ModuleStatus
	Off      string
	Hanging  []view.RunningHook
	Problems []string
}

// state is what the view shows of the operator, apart from facts. The loop makes a new one each
// time, and the view keeps it, so it is not changed after it was sent.
type state struct {
	Ready   bool
	Page    string
	Modules []moduleState
}

// moduleState is a module, or the global hooks. A time that does not apply is zero.
type moduleState struct {
	Name, State string
	// Settled is the last state that is no step of a run. It changes when a run has led to another
	// state.
	Settled string
	// Queue is where the first of its tasks is, and at which place.
	Queue string
	// Problems keep it from being as it should be; Excerpt is what lint has found, with the lines
	// of the files.
	Problems, Excerpt []string
	Off               string
	// Began is when the run in progress began, Ran when the last one did, RetryAt when the next
	// attempt begins.
	Began, Ran, RetryAt time.Time
	Hooks               []string // that have run
}

// failing returns the first task that waits for its next attempt; nil when none does.
func failing(all []view.FailingTask) *view.FailingTask {
	if len(all) == 0 {
		return nil
	}
	return &all[0]
}

// unloaded begins a problem that lasts from a save until the operator has loaded the file, a moment
// later. It is not shown: it would come and go at each save.
const unloaded = "changed on disk since it was loaded"

// stateOf turns a module of the pages into what is shown. Everything that keeps it from being as it
// should be is one list, in the order in which a person should look at it.
func stateOf(m listed, found []finding) moduleState {
	s := moduleState{Name: m.Name, State: m.State, Off: m.Off}
	if m.LastRun != nil {
		s.Ran = m.LastRun.Began
		if m.Phase == view.Running || m.Phase == view.Starting {
			s.Began = m.LastRun.Began
		}
	}
	if f := failing(m.Failing); f != nil {
		s.State, s.Began, s.RetryAt = "failing", time.Time{}, f.RetryAt
		s.Problems = append(s.Problems, f.Task+": "+f.Error)
	}
	if m.Waiting != nil {
		s.Problems = append(s.Problems, m.Waiting.String())
	}
	for _, h := range m.Hanging {
		s.Problems = append(s.Problems, h.String())
	}
	s.Problems = append(s.Problems, m.Contested...)
	for _, problem := range m.Problems {
		if !strings.HasPrefix(problem, unloaded) {
			s.Problems = append(s.Problems, problem)
		}
	}
	if m.State == view.Unhealthy && m.Health != nil {
		s.Problems = append(s.Problems, m.Health.Problem(time.Now()))
	}
	s.Excerpt = excerpts(found)
	return s
}

// globalState is the same for the global hooks, which have no state of their own: their number is
// shown.
func globalState(g view.GlobalStatus, problems []string, found []finding) moduleState {
	s := moduleState{Name: messages.GlobalHooks, State: view.Count(g.Hooks, "hook")}
	if f := failing(g.Failing); f != nil {
		s.State, s.RetryAt = "failing", f.RetryAt
		s.Problems = append(s.Problems, f.Task+": "+f.Error)
	}
	s.Problems = append(s.Problems, problems...)
	s.Excerpt = excerpts(found)
	return s
}

// excerpts returns the errors that lint has found, line by line, without warnings.
func excerpts(found []finding) (lines []string) {
	for _, f := range found {
		if f.bad {
			lines = append(lines, strings.Split(strings.TrimSpace(f.printed), "\n")...)
		}
	}
	return lines
}

// places returns where the first task of each owner waits, such as "main 2/5".
func (a answers) places() map[string]string {
	places := map[string]string{}
	for _, q := range a.Queues.Active {
		for _, t := range q.Tasks {
			if places[t.Owner] == "" {
				places[t.Owner] = fmt.Sprintf("%s %d/%d", q.Name, t.Index, len(q.Tasks))
			}
		}
	}
	return places
}

// changes returns the facts between two states of a module; was is zero for one that is new. While
// there is a problem, only problems are reported: the state follows from them.
func changes(was, now moduleState) (facts []fact) {
	begins := was.Name == "" && now.Settled == string(view.Disabled) // all are until the first discovery
	if was.Settled != now.Settled && len(now.Problems) == 0 && !begins && !now.isGlobal() {
		facts = append(facts, newFact(aboutState, now.Name, now.Settled))
	}
	for _, problem := range now.Problems {
		if !slices.Contains(was.Problems, problem) {
			facts = append(facts, newFact(aboutState, now.Name, problem, now.Excerpt...).bad())
		}
	}
	if len(was.Problems) > 0 && len(now.Problems) == 0 {
		facts = append(facts, newFact(aboutState, now.Name, "its problem is gone"))
	}
	return facts
}
