package server

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// Progress is how far the operator is with all modules. /converge/progress answers with it, the
// command progress reads it, also from operators of other versions, and start shows it on a
// terminal.
type Progress struct {
	// Converged: the first converge is over, and no reload of all modules is in progress.
	Converged bool `json:"converged"`
	// Waits is what the start waits for before there is anything to converge.
	Waits string `json:"waits,omitempty"`
	// Done of Total enabled modules have succeeded since the reload began; Failing ones are
	// retried. All are 0 until it is known which modules are enabled.
	Done    int `json:"done"`
	Total   int `json:"total"`
	Failing int `json:"failing,omitempty"`
	// Running are the owners that do something now, in the order of modules, at most mostRunning of
	// them. More is how many there are in addition.
	Running []RunningStep `json:"running,omitempty"`
	More    int           `json:"more,omitempty"`
	// Seconds since the reload began; the first one includes the start-up.
	Seconds float64 `json:"seconds"`
}

// RunningStep is what a module, or global-hooks, does now. Step is empty until its run has begun
// with something.
type RunningStep struct {
	Owner string `json:"owner"`
	Step  string `json:"step,omitempty"`
}

// mostRunning bounds what Progress names.
const mostRunning = 10

// Converged reports whether the first converge is over, and no reload of all modules is in
// progress. Single modules may still run, or fail.
func Converged(c view.ConvergeStatus) bool { return c.Ready && c.Phase == view.ConvergeIdle }

// ProgressOf sums up what actors have published, by their paths. It needs no dump of mailboxes, so
// it may be called several times a second.
func ProgressOf(statuses map[string]supervisor.Status, c view.ConvergeStatus, now time.Time) Progress {
	p := Progress{Converged: Converged(c), Waits: c.Waits}
	if !c.Began.IsZero() {
		p.Seconds = now.Sub(c.Began).Seconds()
	}
	orders := map[string]int{}
	for _, m := range view.Modules(statuses, nil, nil, now) {
		orders[m.Name] = m.Order
		if !slices.Contains(c.Enabled, m.Name) {
			continue
		}
		p.Total++
		switch {
		case len(m.Failing) > 0: // also one that had succeeded in this reload
			p.Failing++
		case m.Succeeded.After(c.Began):
			p.Done++
		}
	}
	for path, status := range statuses {
		run, ok := status.(supervisor.RunStatus)
		owner, _, ofOwner := supervisor.SplitRun(path)
		if !ok || !ofOwner || !run.RetryAt.IsZero() { // it waits for its next attempt
			continue
		}
		owner = strings.TrimPrefix(strings.TrimPrefix(owner, "operator/"), "module/")
		if _, known := orders[owner]; known || owner == messages.GlobalHooks {
			p.Running = append(p.Running, RunningStep{owner, run.Step})
		}
	}
	slices.SortFunc(p.Running, func(a, b RunningStep) int {
		return cmp.Or(cmp.Compare(orders[a.Owner], orders[b.Owner]), cmp.Compare(a.Owner, b.Owner), cmp.Compare(a.Step, b.Step))
	})
	if p.More = max(len(p.Running)-mostRunning, 0); p.More > 0 {
		p.Running = p.Running[:mostRunning]
	}
	return p
}

// String is one line for a terminal; empty when nothing is in progress. It names the first owner
// that works, and counts the others.
func (p Progress) String() string {
	took := (time.Duration(p.Seconds) * time.Second).String()
	switch {
	case p.Converged:
		return ""
	case p.Seconds == 0 && p.Waits == "": // nothing has begun, or another replica leads
		return ""
	case p.Waits != "":
		return "starting: " + p.Waits
	case p.Total == 0 && len(p.Running) == 0:
		return "starting, " + took
	}
	text := fmt.Sprintf("converging: %d/%s ready", p.Done, view.Count(p.Total, "module"))
	if p.Total == 0 {
		text = "starting"
	}
	if p.Failing > 0 {
		text += fmt.Sprintf(", %d failing", p.Failing)
	}
	text += ", " + took
	if len(p.Running) > 0 {
		first := p.Running[0]
		text += " | " + first.Owner
		if first.Step != "" {
			text += ": " + first.Step
		}
		if more := len(p.Running) - 1 + p.More; more > 0 {
			text += fmt.Sprintf(" (and %d more)", more)
		}
	}
	return text
}

// progress answers /converge/progress.
func (s convergePages) progress(*http.Request) (any, error) {
	return ProgressOf(s.Inspector.Statuses(), s.Converge(), time.Now()), nil
}
