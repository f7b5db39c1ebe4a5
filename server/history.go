package server

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"addon-operator/messages"
	"addon-operator/messages/view"
)

// What is kept of the runs of hooks, so that neither many hooks nor much output costs memory (J19).
const (
	runsOfHook    = 5
	outputOfRun   = 4 << 10 // bytes
	runsOfAll     = 1000
	textOfACause  = 200
	errorOfRecord = 4 << 10
)

// RanHook is a run of a hook that has ended, as pages show it and logs reads it. It is kept as text
// that was cut, without the secrets that were known when a text was cut; pages hide the rest.
type RanHook struct {
	Module  string    `json:"module"` // or "global"
	Hook    string    `json:"hook"`
	Binding string    `json:"binding"`
	Queue   string    `json:"queue"`
	Cause   string    `json:"cause"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	Error   string    `json:"error,omitempty"`
	Output  string    `json:"output,omitempty"` // its last lines
}

// String implements fmt.Stringer. Output that is part of the error is not repeated.
func (r RanHook) String() string {
	took := time.Duration(r.Seconds * float64(time.Second)).Round(time.Millisecond)
	text := fmt.Sprintf("%s %s %s (%s) took %s", r.Began.Format(time.RFC3339), r.Hook, r.Binding, r.Cause, took)
	if r.Error != "" {
		text += ", failed: " + r.Error
	}
	if r.Output == "" || strings.Contains(r.Error, r.Output) {
		return text
	}
	return text + "\n  " + strings.ReplaceAll(r.Output, "\n", "\n  ")
}

// History keeps the last runs of hooks. It is safe for concurrent use: runs of hooks end in
// goroutines of their own. Without runs it is empty.
type History struct {
	// Hide gives a text without known secrets.
	Hide func(string) string

	mu   sync.Mutex
	runs []RanHook // the oldest first
}

// Add records a run, and drops the oldest ones: first of this hook, then of all. The texts are cut
// before the lock is taken, because hiding secrets in them may take long.
func (h *History) Add(r view.HookRun) {
	record := RanHook{
		Module: r.Owner, Hook: r.Hook, Binding: string(r.Binding), Queue: r.Queue, Cause: h.ending(r.Cause.String(), textOfACause),
		Began: time.Now().Add(-r.Took), Seconds: r.Took.Seconds(), Output: h.ending(r.Output, outputOfRun),
	}
	if record.Module == messages.GlobalHooks {
		record.Module = globalOwner
	}
	if r.Err != nil {
		record.Error = h.ending(r.Err.Error(), errorOfRecord)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs = append(h.runs, record)
	same := 0
	for i := len(h.runs) - 1; i >= 0; i-- {
		if h.runs[i].Hook == record.Hook {
			if same++; same > runsOfHook {
				h.runs = slices.Delete(h.runs, i, i+1)
				break
			}
		}
	}
	h.runs = slices.Delete(h.runs, 0, max(0, len(h.runs)-runsOfAll))
}

// Runs are those of a module, or of "global", and of a hook; an empty name means all. The hook is named
// as a whole or by the end of its path. They are copies.
func (h *History) Runs(module, hook string) []RanHook {
	found := []RanHook{}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.runs {
		if (module == "" || r.Module == module) && (hook == "" || r.Hook == hook || strings.HasSuffix(r.Hook, "/"+hook)) {
			found = append(found, r)
		}
	}
	return found
}

// ending is the end of a text that is too long: whole lines, or the end of the only line. Secrets
// are hidden before it is cut, since a part of a secret would not be found any more.
func (h *History) ending(text string, most int) string {
	if len(text) <= most {
		return text
	}
	if text = h.Hide(text); len(text) <= most {
		return text
	}
	text = text[len(text)-most:]
	if _, lines, several := strings.Cut(text, "\n"); several {
		text = lines
	}
	return strings.ToValidUTF8("…"+text, "") // the cut may be inside of a character
}

// runs answers /hook/runs.
func (s owners) runs(r *http.Request) (any, error) {
	module, hook := r.URL.Query().Get("module"), r.URL.Query().Get("hook")
	if module != "" {
		var err error
		if module, err = s.known(module); err != nil {
			return nil, err
		}
	}
	found := s.History.Runs(module, hook)
	text := func(w io.Writer, _ bool) {
		if len(found) == 0 {
			fmt.Fprintln(w, "No runs of these hooks are kept: none has run since the operator started, or hook list has no hook of this name.")
		}
		for _, run := range found {
			fmt.Fprintln(w, run)
		}
	}
	return display{data: map[string]any{"runs": found}, text: text}, nil
}
