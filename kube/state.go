package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Phase is the phase of a Watch.
type Phase string

// The phases of a Watch.
const (
	Syncing        Phase = "syncing"          // the first list is on its way
	Complete       Phase = "complete"         // the cache is what the API server has
	WaitingForKind Phase = "waiting-for-kind" // no such kind, retried (C16)
	Forbidden      Phase = "forbidden"        // the role of the operator lacks a rule, retried (C17)
	TooLarge       Phase = "too-large"        // the objects exceed the limit of the Spec, nothing is kept
	Stale          Phase = "stale"            // the connection is lost, the cache is as of Since
)

// WatchState describes a Watch to people and metrics.
type WatchState struct {
	Phase   Phase
	Message string    // empty when all is well
	Since   time.Time // of the failure, when there is one

	// Incomplete: objects that belong into the snapshot were not listed yet, or not since the
	// permission was back. A kind that is gone has none.
	Incomplete bool

	APIVersion, Kind string // as the API server writes them; empty while not known

	Objects      int    // in the cache
	FilterErrors uint64 // failures of Filter (C39)
}

// State returns the phase of the Watch, with the reason. Of several problems it names the worst:
// a missing kind, then a denial, then a lost connection.
func (w *Watch) State() WatchState {
	state, sources, namespaces := w.ownState()
	for _, s := range sources {
		state.worsen(s.health.condition(), s.key.String())
	}
	if namespaces != nil && state.Phase != WaitingForKind {
		inner := namespaces.State()
		state.Incomplete = state.Incomplete || inner.Incomplete
		if severity(inner.Phase) > severity(state.Phase) {
			state.Phase, state.Message, state.Since = inner.Phase, inner.Message, inner.Since
		}
	}
	return state
}

// Whole reports whether a hook may see the snapshot (C17): it lacks nothing but changes that could
// not be read since the connection was lost.
func (s WatchState) Whole() bool {
	return !s.Incomplete && s.Phase != Forbidden && s.Phase != TooLarge
}

// current reports whether the Watch has what the API server has, and since when that is so without a break; zero: it
// always was. A kind that is gone has no objects.
func (w *Watch) current() (since time.Time, ok bool) {
	state, sources, _ := w.ownState()
	ok = state.Phase == Complete || state.Phase == WaitingForKind
	for _, s := range sources {
		c := s.health.condition()
		if ok = ok && !c.failing(); c.restored.After(since) {
			since = c.restored
		}
	}
	return since, ok
}

// result is the filter result of an object; false when the Watch has no such object.
func (w *Watch) result(key objectKey) (json.RawMessage, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.parts {
		if e, ok := p.entries[key]; ok {
			return e.result, true
		}
	}
	return nil, false
}

// ownState is the state without the condition of the reflectors, and what is needed to add it
// without the lock of the Watch.
func (w *Watch) ownState() (state WatchState, sources []*source, namespaces *Watch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	state = WatchState{Phase: Syncing, FilterErrors: w.failures}
	complete := w.settled // also without a part: no namespace matches
	for _, p := range w.parts {
		if p.source != nil {
			sources = append(sources, p.source)
		}
		state.Objects += len(p.entries)
		complete = complete && p.listed
	}
	switch {
	case w.kind != nil:
		state.APIVersion, state.Kind = w.kind.apiVersion(), w.kind.name
	case errors.Is(w.problem, errNoKind):
		state.Phase = WaitingForKind
		state.Message = fmt.Sprintf("waiting for %s: %v", kindLabel(w.spec.APIVersion, w.spec.Kind), w.problem)
	case w.problem != nil:
		state.Message = w.problem.Error()
	}
	if complete {
		state.Phase = Complete
	}
	// A kind that was there and is gone has no objects. One that has never been there may yet bring
	// objects that the first Synchronization must have.
	gone := w.synced && errors.Is(w.problem, errNoKind)
	state.Incomplete = !complete && !gone
	if w.overflowed {
		state.Phase = TooLarge
		state.Message = fmt.Sprintf("its objects take more than %d bytes", w.spec.Limit)
	}
	return state, sources, w.namespaces
}

// worsen lets the state show the condition of a reflector, if that is worse.
func (s *WatchState) worsen(c condition, source string) {
	phase := Stale
	switch {
	case !c.failing():
		return
	case c.forbidden():
		phase = Forbidden
	}
	if severity(phase) <= severity(s.Phase) {
		return
	}
	s.Phase, s.Since = phase, c.since
	s.Message = fmt.Sprintf("stale since %s: %s %s: %v", c.since.Format(time.RFC3339), c.verb, source, c.err)
	if phase == Forbidden {
		s.Message = fmt.Sprintf("not allowed to %s %s: %v", c.verb, source, c.err)
	}
}

// severity orders the phases from the best to the worst: see State.
func severity(p Phase) int {
	better := []Phase{Complete, Syncing, Stale, Forbidden}
	if i := slices.Index(better, p); i >= 0 {
		return i
	}
	return len(better)
}
