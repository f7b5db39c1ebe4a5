package dev

import (
	"slices"
	"sync"
)

// maxMail bounds the events that wait for the loop.
const maxMail = 2000

// mail is what waits for the loop. Who posts never waits: a terminal that does not read must not stop the operator. Above the
// limit what has only to be shown is dropped, and counted; of what must be known the newest is kept.
type mail struct {
	limit   int
	arrived chan struct{} // something has; of size 1

	mu      sync.Mutex
	waiting []any
	dropped int
}

func newMail(limit int) *mail { return &mail{limit: limit, arrived: make(chan struct{}, 1)} }

// supersedes reports whether an event makes one that waits needless: it says the same, and is newer.
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

// mustArrive reports whether an event is more than something to show.
func mustArrive(event any) bool {
	switch event.(type) {
	case answers, begins, linted:
		return true
	}
	return false
}

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

// take returns what waits, and how many events were dropped behind it.
func (m *mail) take() (events []any, dropped int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	events, dropped = m.waiting, m.dropped
	m.waiting, m.dropped = nil, 0
	return events, dropped
}

func (m *mail) empty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.waiting) == 0
}
