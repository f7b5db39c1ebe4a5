package kube

import (
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// health remembers how the requests of one reflector are doing.
type health struct {
	mu       sync.Mutex
	since    time.Time // start of the present failure; zero: all is well
	verb     string    // of the failing request: list or watch
	err      error
	failures uint64 // all failed requests, ever
}

// condition is a copy of health to look at.
type condition struct {
	since    time.Time
	verb     string
	err      error
	failures uint64
}

func (c condition) failing() bool   { return c.err != nil }
func (c condition) forbidden() bool { return apierrors.IsForbidden(c.err) }

func (h *health) condition() condition {
	h.mu.Lock()
	defer h.mu.Unlock()
	return condition{since: h.since, verb: h.verb, err: h.err, failures: h.failures}
}

// fail notes a failed request and reports whether it is the first in a row.
func (h *health) fail(verb string, err error, now time.Time) (first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first = h.err == nil
	if first {
		h.since = now
	}
	h.verb, h.err = verb, err
	h.failures++
	return first
}

// recover records a successful request and returns how long there was none; zero
// after a success. A list is no sign of a watch that works: a role may allow
// the one and not the other.
func (h *health) recover(verb string, now time.Time) (outage time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil || verb == "list" && h.verb == "watch" {
		return 0
	}
	outage = now.Sub(h.since)
	h.since, h.verb, h.err = time.Time{}, "", nil
	return outage
}
