package server

import (
	"net/http"
	"slices"
	"strings"

	"addon-operator/messages/view"
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

// readiness is what the probe answers. A follower is ready when it has read what a leader begins with, and competes for
// the Lease, whatever its leader does (L3): a rolling update waits until a new replica is ready, so a leader that does
// not converge would otherwise block the very update that repairs it.
func (s router) readiness() (status int, word string) {
	if waits := s.Converge().Waits; waits != "" {
		return http.StatusInternalServerError, "not ready: " + waits
	}
	if l, follower := s.standby(); follower {
		if l.Problem != "" {
			return http.StatusInternalServerError, "not ready: " + l.String() // it contains the reason
		}
		return http.StatusOK, "ok: " + l.String()
	}
	if s.Converge().Ready {
		return http.StatusOK, "ok"
	}
	return http.StatusInternalServerError, "not ready: the first converge has not finished"
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
	return slices.Contains([]string{"queue", "module", "global", "hook", "values", "plan", "converge", "actors"}, first)
}
