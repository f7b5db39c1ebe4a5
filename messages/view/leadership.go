package view

import (
	"fmt"
	"time"
)

// Leadership is what a replica knows about who leads (L1). A replica without an election leads.
type Leadership struct {
	// Self is the name of this replica, Leader that of the one that leads; empty when there
	// is none. Address is where the leader answers probes.
	Self    string `json:"self,omitempty"`
	Leader  string `json:"leader,omitempty"`
	Address string `json:"leaderAddress,omitempty"`
	Leading bool   `json:"leading"`
	// Since when it is so, as this replica saw it.
	Since       time.Time `json:"since,omitzero"`
	Transitions int       `json:"transitions,omitempty"`
	// Problem is why this replica cannot lead, or does not know who does.
	Problem string `json:"problem,omitempty"`
}

// String implements fmt.Stringer.
func (l Leadership) String() string {
	since := l.Since.UTC().Format(time.RFC3339)
	switch {
	case l.Leading && l.Since.IsZero():
		return "leader"
	case l.Leading && l.Self == "":
		return "leader since " + since
	case l.Leading:
		return "leader " + l.Self + " since " + since
	}
	text := "standby"
	if l.Leader != "" {
		text += fmt.Sprintf("; %s (%s) leads since %s", l.Leader, l.Address, since)
	}
	if l.Problem != "" {
		text += "; it cannot compete for the lease: " + l.Problem
	}
	if l.Leader == "" && l.Problem == "" {
		text += "; no leader since " + since
	}
	return text
}

// OperatorStatus is what the root actor publishes about itself.
type OperatorStatus struct {
	Stopping bool `json:"stopping"`
	// Leadership is nil without an election.
	Leadership *Leadership `json:"leadership,omitempty"`
}

// String implements fmt.Stringer.
func (s OperatorStatus) String() string {
	switch {
	case s.Stopping:
		return "stopping"
	case s.Leadership != nil:
		return s.Leadership.String()
	}
	return ""
}
