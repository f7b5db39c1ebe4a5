package server

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"text/tabwriter"
	"time"

	"addon-operator/messages"
)

// converge is one of the last reloads, as pages show it (J21).
type converge struct {
	Reload  int       `json:"reload"`
	Cause   string    `json:"cause"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	// State is in progress, converged or overtaken by the next reload, before it has ended.
	State string         `json:"state"`
	Steps []convergeStep `json:"steps"` // in the order in which they began
	Cut   int            `json:"stepsNotKept,omitempty"`
}

// convergeStep is a task of a reload that has ended, or a part of one: a hook that ran in it, or
// Helm. Times are in seconds since the reload began.
type convergeStep struct {
	Task      string         `json:"task"`
	Owner     string         `json:"owner,omitempty"`
	Queue     string         `json:"queue,omitempty"`
	After     float64        `json:"afterSeconds"`
	Seconds   float64        `json:"seconds"`
	Failed    int            `json:"failedAttempts,omitempty"`
	Cancelled bool           `json:"cancelled,omitempty"` // it was given up before its end
	Parts     []convergeStep `json:"parts,omitempty"`
	Cut       int            `json:"partsNotKept,omitempty"`
}

// convergeList answers /converge/list with what the actor converge remembers.
func (s actorPages) convergeList(r *http.Request) (any, error) {
	found, err := question[messages.Converges](r.Context(), s.Source, messages.Converge, messages.ListConverges{})
	if err != nil {
		return nil, err
	}
	all := make([]converge, 0, len(found.List))
	for _, c := range found.List {
		all = append(all, describeConverge(c, time.Now()))
	}
	return display{data: map[string]any{"converges": all}, text: func(w io.Writer, _ bool) { writeConverges(w, all) }}, nil
}

// describeConverge sorts the steps by their beginning; the record has them in the order of their
// ends. now ends a reload that is in progress.
func describeConverge(c messages.ConvergeRecord, now time.Time) converge {
	shown := converge{Reload: c.Reload, Cause: c.Cause.String(), Began: c.Began, State: "converged", Cut: c.Cut, Steps: []convergeStep{}}
	end := c.Ended
	switch {
	case end.IsZero():
		shown.State, end = "in progress", now
	case c.Overtaken:
		shown.State = "overtaken by the next reload"
	}
	shown.Seconds = end.Sub(c.Began).Seconds()
	for _, step := range slices.SortedStableFunc(slices.Values(c.Steps), func(a, b messages.Step) int { return a.Began.Compare(b.Began) }) {
		described := convergeStep{
			Task: step.Task, Owner: step.Owner, Queue: step.Queue, After: step.Began.Sub(c.Began).Seconds(), Seconds: step.Ended.Sub(step.Began).Seconds(),
			Failed: step.Failed, Cancelled: step.Cancelled, Cut: step.Cut,
		}
		for _, p := range step.Parts {
			described.Parts = append(described.Parts, convergeStep{Task: cmp.Or(p.Hook, "helm"), After: p.Began.Sub(c.Began).Seconds(), Seconds: p.Took.Seconds()})
		}
		shown.Steps = append(shown.Steps, described)
	}
	return shown
}

func writeConverges(w io.Writer, all []converge) {
	for _, c := range all {
		fmt.Fprintf(w, "reload %d, %s: %s, %s after %s\n", c.Reload, c.Began.UTC().Format(time.RFC3339), c.Cause, c.State, seconds(c.Seconds))
		out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, step := range c.Steps {
			notes := ""
			if step.Failed > 0 {
				notes = fmt.Sprintf(", %d failed", step.Failed)
			}
			if step.Cancelled {
				notes += ", given up"
			}
			fmt.Fprintf(out, "  +%s\t%s\t%s %s%s\n", seconds(step.After), seconds(step.Seconds), step.Owner, step.Task, notes)
			for _, p := range step.Parts {
				fmt.Fprintf(out, "  +%s\t%s\t    %s\n", seconds(p.After), seconds(p.Seconds), p.Task)
			}
		}
		_ = out.Flush() // the client has gone
		if c.Cut > 0 {
			fmt.Fprintf(w, "  … and %d more steps, which are not kept\n", c.Cut)
		}
	}
}

// seconds is a duration for people, rounded to what matters at its size.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d >= time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}
