package view

import (
	"fmt"
	"time"
)

// ReleaseHistory are recorded revisions of the release of a module.
type ReleaseHistory struct {
	Module    string     `json:"module"`
	Revisions []Revision `json:"revisions"` // the newest first
	// Recorded is how many there are; Revisions has the newest of them.
	Recorded int `json:"recorded"`
}

// Revision is one recorded revision of a release. Known secrets are hidden in it.
type Revision struct {
	Revision     int       `json:"revision"`
	Updated      time.Time `json:"updated,omitzero"` // when it was installed, or when that failed
	Status       string    `json:"status"`           // as Helm names it: deployed, superseded, failed, …
	Chart        string    `json:"chart,omitempty"`
	ChartVersion string    `json:"chartVersion,omitempty"`
	AppVersion   string    `json:"appVersion,omitempty"`
	Description  string    `json:"description,omitempty"` // what Helm says about it
	// Error is why the record cannot be read: then only the revision and its status are known.
	Error string `json:"error,omitempty"`
}

// DiffRequest asks for the difference of the manifests of two revisions. Without To it is the
// newest one, without From the one that is recorded before To.
type DiffRequest struct {
	From, To int
	// Secrets shows those; without it they are hidden.
	Secrets bool
}

// RevisionDiff is what differs between the manifests of two revisions, without Helm hooks.
type RevisionDiff struct {
	Module  string       `json:"module"`
	From    int          `json:"from"`
	To      int          `json:"to"`
	Changes []ObjectDiff `json:"changes"`
	// Cut says what was left out because it is too long; empty: nothing was.
	Cut string `json:"cut,omitempty"`
}

// NoRevisionError says that a revision that was asked for is not recorded.
type NoRevisionError struct {
	Module   string
	Revision int
	Recorded []int // the newest first
}

// Error implements error.
func (e *NoRevisionError) Error() string {
	const most = 20
	if len(e.Recorded) == 0 {
		return fmt.Sprintf("no revision of module %s is recorded: it has no chart, or Helm has not run yet", e.Module)
	}
	text := fmt.Sprintf("revision %d of module %s is not recorded; recorded revisions:", e.Revision, e.Module)
	for i, n := range e.Recorded[:min(most, len(e.Recorded))] {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(" %d", n)
	}
	if older := len(e.Recorded) - most; older > 0 {
		text += fmt.Sprintf(" and %d older ones", older)
	}
	return text
}
