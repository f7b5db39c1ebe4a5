package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"addon-operator/messages"
)

// leaderPatience bounds the question of a follower to its leader; it must fit into the
// time limit of a probe.
const leaderPatience = 3 * time.Second

// toLeader asks without a proxy: one that the environment names for the world outside knows
// nothing of Pods. Whose certificate it is does not matter: a probe carries no secret, and the Lease says where the leader is.
var toLeader = &http.Client{Transport: &http.Transport{ //nolint:gochecknoglobals // it has no state
	DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
}}

// own is the parameter of a question from a follower to its leader: whoever is asked
// answers for itself only, so that two who take each other for the leader do not ask in a
// circle.
const own = "own"

// standby tells who leads, when it is another replica than this one.
func (s Source) standby() (messages.Leadership, bool) {
	if s.Leadership == nil {
		return messages.Leadership{}, false
	}
	l := s.Leadership()
	return l, !l.Leading
}

// readiness is what the probe answers. A follower is as ready as its leader (L3): one that
// stands by for nobody is not.
func (s Source) readiness(r *http.Request) (status int, word string) {
	if waits := s.Converge().Waits; waits != "" {
		return http.StatusInternalServerError, "not ready: " + waits
	}
	l, follower := s.standby()
	switch {
	case follower && r.URL.Query().Has(own):
		return http.StatusInternalServerError, "not ready: this replica does not lead"
	case follower:
		if err := s.askLeader(r.Context(), l); err != nil {
			return http.StatusInternalServerError, "not ready: " + l.String() + ": " + err.Error()
		}
		return http.StatusOK, "ok: " + l.String()
	case s.Converge().Ready:
		return http.StatusOK, "ok"
	}
	return http.StatusInternalServerError, "not ready: the first converge is not over"
}

// askLeader asks the leader for its readiness.
func (s Source) askLeader(ctx context.Context, l messages.Leadership) error {
	if l.Leader == "" {
		return errors.New("there is no leader to be ready for")
	}
	ctx, cancel := context.WithTimeout(ctx, leaderPatience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.scheme()+"://"+l.Address+"/readyz?"+own, http.NoBody)
	if err != nil {
		return fmt.Errorf("the address of the leader: %w", err)
	}
	resp, err := toLeader.Do(req)
	if err != nil {
		return fmt.Errorf("the leader does not answer; may this Pod reach its port? %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	const enough = 200
	body, err := io.ReadAll(io.LimitReader(resp.Body, enough))
	if err != nil {
		return fmt.Errorf("the answer of the leader: %w", err)
	}
	return fmt.Errorf("the leader says: %s", strings.TrimSpace(string(body)))
}

// scheme is that of the public address, of all replicas.
func (s Source) scheme() string {
	if s.Authorize != nil {
		return "https"
	}
	return "http"
}

// leaderOnly answers in place of pages that show what only a leader has: without it they
// would be empty, or say that a module does not exist.
func (s Source) leaderOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if l, follower := s.standby(); follower && needsLeader(r.URL.Path) {
			text(w, http.StatusServiceUnavailable, "this replica is "+l.String()+"; ask the leader\n")
			return
		}
		next.ServeHTTP(w, r)
	})
}

func needsLeader(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "queue", "module", "global", "hook", "values", "graph", "plan":
		return true
	}
	return false
}
