package dev

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"addon-operator/messages"
	"addon-operator/messages/view"
)

// answers are those of the operator's pages.
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

// atRest reports whether nothing is on its way.
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

// state is what the view shows of the operator.
type state struct {
	Ready   bool
	Page    string
	Modules []moduleState
}

// moduleState is a module, or the global hooks.
type moduleState struct {
	Name, State string
	Settled     string // the last state that is no step of a run
	// Queue is where the first of its tasks is, and at which place.
	Queue string
	// Problems keep it from being as it should be; Excerpt is what lint has found, with the lines of the files.
	Problems, Excerpt []string
	Off               string
	// Began is when the run in progress began, Ran when the last one did, RetryAt when the next attempt begins.
	Began, Ran, RetryAt time.Time
	Hooks               []string // that have run
}

// failing is the first task that waits for its next attempt; nil for none.
func failing(all []view.FailingTask) *view.FailingTask {
	if len(all) == 0 {
		return nil
	}
	return &all[0]
}

// unloaded begins what the pages say of files until a moment later, when the operator has loaded them.
const unloaded = "changed on disk since it was loaded"

// stateOf is what a module shows.
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
	s.Problems = append(s.Problems, m.Fights...)
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

// globalState is what the global hooks show.
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

// excerpts are the errors that lint has found, with the lines of the files.
func excerpts(found []finding) (lines []string) {
	for _, f := range found {
		if f.bad {
			lines = append(lines, strings.Split(strings.TrimSpace(f.printed), "\n")...)
		}
	}
	return lines
}

// places are the queues in which the owners have tasks.
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

// changes are the facts that lie between two states of a module.
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
