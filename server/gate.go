package server

import (
	"context"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
)

// Pages that read a body, render charts, or read records of releases, take tens of mebibytes each. maxHeavy of them are made at a time; who comes
// later waits, before his body is read. J8.
const (
	maxHeavy    = 2
	heavyWaits  = 30 * time.Second
	heavyAnswer = time.Minute // to write what has been made, to a client that reads
)

// gate lets some requests through at a time.
type gate chan struct{}

func newGate() gate { return make(gate, maxHeavy) }

// heavy reports whether a page is one of those.
func heavy(r *http.Request) bool {
	asked := strings.TrimSuffix(r.URL.Path, path.Ext(r.URL.Path))
	_, part, module := strings.Cut(strings.TrimPrefix(asked, "/module/"), "/")
	return r.Method == http.MethodPost || asked == "/plan" || module && slices.Contains([]string{"render", "history", "diff"}, part)
}

// handler serves heavy pages when there is a place, and all others at once.
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
			text(w, http.StatusServiceUnavailable, fmt.Sprintf("%d requests for pages like this one are being answered, and more wait; ask again later\n", maxHeavy))
			return
		}
		defer func() { <-g }()
		// The wait was not the client's fault. A recorder of tests has no deadlines.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(requestTimeout))
		next.ServeHTTP(&leisurely{ResponseWriter: w}, r)
	})
}

// leisurely limits the time of the answer from the moment when it is known.
type leisurely struct {
	http.ResponseWriter
	begun bool
}

// Write implements http.ResponseWriter.
func (l *leisurely) Write(p []byte) (int, error) {
	if !l.begun {
		l.begun = true
		_ = http.NewResponseController(l.ResponseWriter).SetWriteDeadline(time.Now().Add(heavyAnswer)) // a recorder of tests has none
	}
	return l.ResponseWriter.Write(p)
}

// Unwrap serves http.ResponseController.
func (l *leisurely) Unwrap() http.ResponseWriter { return l.ResponseWriter }
