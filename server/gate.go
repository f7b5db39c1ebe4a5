package server

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"strings"
	"time"
)

// Pages that read a body or render charts take tens of mebibytes each,
// so maxHeavy of them are made at a time. Later requests wait before their bodies are read, so that
// waiting costs no memory (J8).
const (
	maxHeavy   = 2
	heavyWaits = 30 * time.Second
)

// gate holds one element for each heavy page that is being made; its capacity is the limit.
type gate chan struct{}

func newGate() gate { return make(gate, maxHeavy) }

// heavy reports whether a page takes a place of the gate. It sees the path as the client sent it,
// before withoutExtension, so it removes the extension itself. All POSTs count, since they have
// bodies.
func heavy(r *http.Request) bool {
	asked := strings.TrimSuffix(r.URL.Path, path.Ext(r.URL.Path))
	_, part, module := strings.Cut(strings.TrimPrefix(asked, "/module/"), "/")
	return r.Method == http.MethodPost || asked == "/plan" || module && part == "render"
}

// handler serves heavy pages when there is a place, and all others at once. A request that waits
// for longer than heavyWaits is refused with 503; one whose client has gone gives up its place in
// line.
func (g gate) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !heavy(r) {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), heavyWaits)
		defer cancel()
		select {
		case g <- struct{}{}:
		case <-ctx.Done():
			text(w, http.StatusServiceUnavailable, fmt.Sprintf("%d requests for pages like this one are in progress, and more are waiting; try again later\n", maxHeavy))
			return
		}
		defer func() { <-g }()
		// The read deadline of the server began with the request; the wait at the gate must not
		// count against the body. A recorder of tests has no deadlines.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(requestTimeout))
		next.ServeHTTP(w, r)
	})
}
