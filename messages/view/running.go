package view

import (
	"fmt"
	"time"
)

// HangsAfter is how long a hook may run before it is reported as hanging. Its time limit ends it
// much later.
const HangsAfter = time.Minute

// RunningHook is a hook or an enabled script that runs now.
type RunningHook struct {
	// Module is empty for global hooks.
	Module  string    `json:"module,omitempty"`
	Hook    string    `json:"hook"`
	Binding string    `json:"binding,omitempty"`
	Began   time.Time `json:"began"`
	// Limit is when it is ended, as text; empty for never.
	Limit string `json:"limit,omitempty"`
}

// Hangs reports whether it has been running for too long.
func (r RunningHook) Hangs() bool { return time.Since(r.Began) >= HangsAfter }

// String implements fmt.Stringer.
func (r RunningHook) String() string {
	return r.hangs("for " + time.Since(r.Began).Round(time.Second).String())
}

// since is String as long as the hook runs.
func (r RunningHook) since() string { return r.hangs("since " + r.Began.Local().Format(time.TimeOnly)) }

func (r RunningHook) hangs(long string) string {
	what := "hook " + r.Hook
	if r.Binding != "" {
		what += " (" + r.Binding + ")"
	}
	limit := "it has no time limit"
	if r.Limit != "" {
		limit = "its limit is " + r.Limit
	}
	return fmt.Sprintf("%s hangs: it has been running %s, %s", what, long, limit)
}
