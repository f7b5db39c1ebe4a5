package dev

import (
	"slices"
	"sync"
)

// maxMail bounds the events that wait for the loop.
const maxMail = 2000

// mail holds the events that wait for the loop, in their order. Senders never wait: a terminal that
// does not read must not stop the operator, whose log is among the senders. Above the limit, events
// that are only shown are dropped and counted; of those that change what is known the newest of a
// kind is kept. So the length is bounded by the limit and the number of modules.
type mail struct {
	limit   int
	arrived chan struct{} // something has; of size 1

	mu      sync.Mutex
	waiting []any
	dropped int
}

func newMail(limit int) *mail { return &mail{limit: limit, arrived: make(chan struct{}, 1)} }

// supersedes reports whether an event makes a waiting one needless, because it is newer and about
// the same.
func supersedes(event, waiting any) bool {
	switch e := event.(type) {
	case answers:
		_, same := waiting.(answers)
		return same
	case begins:
		_, same := waiting.(begins)
		return same
	case linted:
		w, same := waiting.(linted)
		return same && w.module == e.module
	}
	return false
}

// mustArrive reports whether an event changes what is known: without it the board would be wrong
// until the next of its kind.
func mustArrive(event any) bool {
	switch event.(type) {
	case answers, begins, linted:
		return true
	}
	return false
}

// post adds an event. Answers replace those that wait also below the limit, since only the last
// state is of interest, and they come four times a second. It is safe for concurrent use.
func (m *mail) post(event any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	full := len(m.waiting) >= m.limit
	if _, polled := event.(answers); polled || full {
		m.waiting = slices.DeleteFunc(m.waiting, func(waiting any) bool { return supersedes(event, waiting) })
	}
	if full && !mustArrive(event) {
		m.dropped++
		return
	}
	m.waiting = append(m.waiting, event)
	select {
	case m.arrived <- struct{}{}:
	default:
	}
}

// take returns and removes what waits, and how many events were dropped after these.
func (m *mail) take() (events []any, dropped int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	events, dropped = m.waiting, m.dropped
	m.waiting, m.dropped = nil, 0
	return events, dropped
}

// empty reports whether the loop has taken everything; it may still be handling it.
func (m *mail) empty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.waiting) == 0
}
