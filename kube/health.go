package kube

import (
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// health remembers how the requests of one reflector are doing. The reflector writes it, states of
// Watches and metrics read it.
type health struct {
	mu   sync.Mutex
	last condition
}

// condition is what is known of the requests of one reflector.
type condition struct {
	since    time.Time // start of the present failure; zero: all is well
	verb     string    // of the failing request: list or watch
	err      error     // of the last failed request; nil: all is well
	restored time.Time // end of the last failure; zero: there was none
}

func (c condition) failing() bool   { return c.err != nil }
func (c condition) forbidden() bool { return apierrors.IsForbidden(c.err) }

func (h *health) condition() condition {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// fail notes a failed request and reports whether it is the first in a row.
func (h *health) fail(verb string, err error, now time.Time) (first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first = !h.last.failing()
	if first {
		h.last.since = now
	}
	h.last.verb, h.last.err = verb, err
	return first
}

// recover records a successful request and returns how long there was none; zero
// after a success. A list is no sign of a watch that works: a role may allow
// the one and not the other.
func (h *health) recover(verb string, now time.Time) (outage time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.last.failing() || verb == "list" && h.last.verb == "watch" {
		return 0
	}
	outage = now.Sub(h.last.since)
	h.last = condition{restored: now}
	return outage
}
