package server

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
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
	// State is in progress, converged or overtaken. A reload is overtaken when the next one begins
	// before it has ended.
	State string         `json:"state"`
	Steps []convergeStep `json:"steps"` // in the order in which they began
	Cut   int            `json:"stepsNotKept,omitempty"`
	// Slowest are the hooks that took longest, at most ten.
	Slowest []convergePart `json:"slowestHooks,omitempty"`
}

// convergeStep is a task of a reload that has ended. Times are in seconds since the reload began.
type convergeStep struct {
	Task    string  `json:"task"`
	Owner   string  `json:"owner"`
	Queue   string  `json:"queue"`
	After   float64 `json:"afterSeconds"`
	Seconds float64 `json:"seconds"`
	Failed  int     `json:"failedAttempts,omitempty"`
	// Cancelled: the task was given up before its end. Critical: without it the reload would have
	// ended earlier.
	Cancelled bool           `json:"cancelled,omitempty"`
	Critical  bool           `json:"critical,omitempty"`
	Parts     []convergePart `json:"parts,omitempty"`
	Cut       int            `json:"partsNotKept,omitempty"`
}

// convergePart is a hook that ran in a step, or Helm. Its name is then helm.
type convergePart struct {
	Name    string  `json:"name"`
	Owner   string  `json:"owner,omitempty"` // among the slowest
	After   float64 `json:"afterSeconds"`
	Seconds float64 `json:"seconds"`
}

// converges asks the actor converge for its last reloads.
func (s Source) converges(r *http.Request) ([]converge, error) {
	found, err := question[messages.Converges](r.Context(), s, messages.Converge, messages.ListConverges{})
	if err != nil {
		return nil, err
	}
	all := make([]converge, 0, len(found.List))
	for _, c := range found.List {
		all = append(all, describeConverge(c, time.Now()))
	}
	return all, nil
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
	steps := slices.SortedStableFunc(slices.Values(c.Steps), func(a, b messages.Step) int { return a.Began.Compare(b.Began) })
	critical := criticalPath(steps)
	for i, step := range steps {
		described := convergeStep{
			Task: step.Task, Owner: step.Owner, Queue: step.Queue, After: step.Began.Sub(c.Began).Seconds(), Seconds: step.Ended.Sub(step.Began).Seconds(),
			Failed: step.Failed, Cancelled: step.Cancelled, Critical: critical[i], Cut: step.Cut,
		}
		for _, p := range step.Parts {
			part := convergePart{Name: cmp.Or(p.Hook, "helm"), After: p.Began.Sub(c.Began).Seconds(), Seconds: p.Took.Seconds()}
			described.Parts = append(described.Parts, part)
			// Only the list of the slowest names the owner: there the step does not show it.
			if part.Owner = step.Owner; p.Hook != "" {
				shown.Slowest = append(shown.Slowest, part)
			}
		}
		shown.Steps = append(shown.Steps, described)
	}
	const most = 10
	slices.SortStableFunc(shown.Slowest, func(a, b convergePart) int { return cmp.Compare(b.Seconds, a.Seconds) })
	shown.Slowest = shown.Slowest[:min(len(shown.Slowest), most)]
	return shown
}

// criticalPath are the steps, by their places, that determined when the reload ended: the step that
// ended last, before it the one that ended last before that began, and so on. Steps do not record
// what they waited for, so this is derived from times alone. Cancelled steps are left out. The
// steps are in the order in which they began.
func criticalPath(steps []messages.Step) map[int]bool {
	path := map[int]bool{}
	var limit time.Time // zero: none
	for {
		last := -1
		for i, step := range steps {
			if path[i] || step.Cancelled || !limit.IsZero() && step.Ended.After(limit) {
				continue
			}
			if last < 0 || step.Ended.After(steps[last].Ended) {
				last = i
			}
		}
		if last < 0 {
			return path
		}
		path[last], limit = true, steps[last].Began
	}
}

// convergePages show the last reloads, and the progress of the one that runs.
type convergePages struct{ Source }

// list answers /converge/list.
func (s convergePages) list(r *http.Request) (any, error) {
	all, err := s.converges(r)
	return display{map[string]any{"converges": all}, func(w io.Writer) { writeConverges(w, all) }}, err
}

func writeConverges(w io.Writer, all []converge) {
	for _, c := range all {
		fmt.Fprintf(w, "reload %d, %s: %s, %s after %s\n", c.Reload, c.Began.UTC().Format(time.RFC3339), c.Cause, c.State, seconds(c.Seconds))
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, step := range c.Steps {
			fmt.Fprintf(table, "  +%s\t%s\t%s %s\t%s\n", seconds(step.After), seconds(step.Seconds), step.Owner, step.Task, step.Notes())
		}
		_ = table.Flush() // the client has gone
		if c.Cut > 0 {
			fmt.Fprintf(w, "  … and %d more steps, which are not kept\n", c.Cut)
		}
		for _, hook := range c.Slowest {
			fmt.Fprintf(w, "  slow: %s %s took %s\n", hook.Owner, hook.Name, seconds(hook.Seconds))
		}
	}
}

// Notes are what is special about a step, for people; the template of the page calls it, too.
func (s convergeStep) Notes() string {
	var notes []string
	if s.Critical {
		notes = append(notes, "critical")
	}
	if s.Failed > 0 {
		notes = append(notes, strconv.Itoa(s.Failed)+" failed")
	}
	if s.Cancelled {
		notes = append(notes, "given up")
	}
	return strings.Join(notes, ", ")
}

// seconds is a duration for people, rounded to what matters at its size.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d >= time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(100 * time.Microsecond).String()
}

// mostSteps is how many steps of a reload the page draws: the longest, in the order in which they
// began.
const mostSteps = 100

// drawnConverge is a reload with the bars of its steps.
type drawnConverge struct {
	converge
	Drawn   []drawnStep
	Shorter int // steps that are not drawn
}

// drawnStep is a bar: X is its left end and Width its length, in thousandths of the whole.
type drawnStep struct {
	convergeStep
	X, Width float64
}

// convergesFragment answers /live/converges.
func (s fragments) convergesFragment(r *http.Request) (any, error) {
	all, err := s.converges(r)
	drawn := make([]drawnConverge, 0, len(all))
	for _, c := range all {
		drawn = append(drawn, draw(c))
	}
	return drawn, err
}

// draw places the steps of a reload on a line. Steps as long as the shortest one that is drawn may
// be left out, when there are more than mostSteps of them.
func draw(c converge) drawnConverge {
	d := drawnConverge{converge: c}
	longest := slices.SortedStableFunc(slices.Values(c.Steps), func(a, b convergeStep) int { return cmp.Compare(b.Seconds, a.Seconds) })
	shortest := 0.0
	if len(longest) > mostSteps {
		shortest = longest[mostSteps-1].Seconds
	}
	whole := c.Seconds
	for _, step := range c.Steps { // steps of a parked module end after the reload
		whole = max(whole, step.After+step.Seconds)
	}
	// A bar of the shortest step is still visible.
	const wide, least = 1000, 3
	for _, step := range c.Steps {
		if step.Seconds < shortest || len(d.Drawn) == mostSteps {
			d.Shorter++
			continue
		}
		bar := drawnStep{convergeStep: step, Width: wide}
		if whole > 0 {
			bar.X, bar.Width = wide*max(0, step.After)/whole, wide*step.Seconds/whole
		}
		bar.Width = max(bar.Width, least)
		bar.X = min(bar.X, wide-bar.Width)
		d.Drawn = append(d.Drawn, bar)
	}
	return d
}
