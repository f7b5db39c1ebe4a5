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

// OperatorReporter is a status that is computed when it is read, because the leader changes without
// a message.
type OperatorReporter interface{ Operator() OperatorStatus }

// OperatorStatus is what the root actor publishes about itself.
type OperatorStatus struct {
	Stopping bool `json:"stopping"`
	// StandBy: everything is loaded, another replica acts.
	StandBy bool `json:"standBy,omitempty"`
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
	case s.StandBy:
		return "standby"
	}
	return ""
}

// StandbyStatus is how far a follower is prepared to lead.
type StandbyStatus struct {
	// Warm: hooks have been loaded once, except those of cold modules.
	Warm bool `json:"warm"`
	// Modules whose hooks are loaded, of those that the values switch on.
	Modules int `json:"modules"`
	Wanted  int `json:"wantedModules"`
	// Cold are the modules whose hooks could not be loaded, each with the reason; they are loaded
	// when this replica leads.
	Cold []string `json:"cold,omitempty"`
}

// String implements fmt.Stringer.
func (s StandbyStatus) String() string {
	text := fmt.Sprintf("hooks of %d of %s are loaded", s.Modules, Count(s.Wanted, "module"))
	for _, cold := range s.Cold {
		text += "; " + head(cold)
	}
	return text
}
