package server

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// standby returns who leads, and whether that is another replica than this one. A replica alone is
// no follower.
func (s Source) standby() (view.Leadership, bool) {
	if s.Leadership == nil {
		return view.Leadership{}, false
	}
	l := s.Leadership()
	return l, !l.Leading
}

// readiness is what the probe answers. A follower is ready when it could lead, whatever its leader
// does (L3): a rolling update waits until a new replica is ready, so a leader that does not
// converge would otherwise block the very update that repairs it.
func (s router) readiness() (status int, word string) {
	if waits := s.Converge().Waits; waits != "" {
		return http.StatusInternalServerError, "not ready: " + waits
	}
	if l, follower := s.standby(); follower {
		if why := s.unable(l); why != "" {
			return http.StatusInternalServerError, "not ready: " + why
		}
		return http.StatusOK, "ok: " + l.String()
	}
	if s.Converge().Ready {
		return http.StatusOK, "ok"
	}
	return http.StatusInternalServerError, "not ready: the first converge has not finished"
}

// unable is the reason why a follower could not lead now; it is empty when it could. Hooks that cannot be
// loaded and watches that fail are no reason: it is unknown whether a leader needs them, and the
// update that repairs them would wait, too.
func (s router) unable(l view.Leadership) string {
	if l.Problem != "" {
		return l.String() // it contains the reason
	}
	// This is the answer until the actor standby has published its status.
	why := "it starts"
	var syncing []messages.BindingState
	walk(s.tree(public), func(n *supervisor.Node) {
		switch status := n.Status.(type) {
		case view.StandbyStatus:
			if why = ""; !status.Warm {
				why = "hooks are being loaded"
			}
		case view.MonitorsReporter:
			syncing = status.Monitors().Syncing()
		}
	})
	if why == "" && len(syncing) > 0 {
		why = fmt.Sprintf("snapshots are being filled: %d, first %s", len(syncing), syncing[0])
	}
	if why == "" {
		return ""
	}
	return l.String() + "; " + why
}

// leaderOnly answers in place of pages with the state of a leader: in a follower they would
// be empty, or report that a module does not exist. It needs a path without an extension.
func (s router) leaderOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l, follower := s.standby(); follower && needsLeader(r.URL.Path) {
			text(w, http.StatusServiceUnavailable, "this replica is a "+l.String()+"; send the request to the leader\n")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// needsLeader decides by the first element of the path. The live page itself shows a follower as
// one.
func needsLeader(path string) bool {
	if path == "/status" { // and not /status/converge
		return true
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return slices.Contains([]string{"queue", "module", "global", "hook", "values", "plan", "converge"}, first)
}
