package testkit

import (
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// scheduler is a dispatcher that hands out turns one at a time, so that a test decides in which
// order mailboxes run. A turn lets one mailbox handle its messages, or one goroutine go on that
// waits (await). The player takes a turn only when nothing else can run. It is called from timers
// and runs too, hence the lock, which is never held during a turn.
type scheduler struct {
	mu      sync.Mutex
	ready   []func()      // mailboxes with messages, in the order of arrival
	waiting []waiter      // goroutines that wait for their turn, by name
	rnd     *rand.Rand    // nil: in the order of arrival
	wake    chan struct{} // has an element when something became ready; more are of no use
}

// waiter is a goroutine that waits for its turn, or a call that was put off until then (later).
type waiter struct {
	name string
	turn func()
}

var _ actor.Dispatcher = (*scheduler)(nil)

// newScheduler returns a scheduler that draws the order from a seed; seed 0 keeps the
// order of arrival.
func newScheduler(seed uint64) *scheduler {
	s := &scheduler{wake: make(chan struct{}, 1)}
	if seed != 0 {
		s.rnd = rand.New(rand.NewPCG(seed, seed))
	}
	return s
}

// Schedule implements actor.Dispatcher.
func (s *scheduler) Schedule(turn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = append(s.ready, turn)
	s.wakes()
}

// await blocks the goroutine until it is its turn. Goroutines that wake at one instant
// come in an order that cannot be repeated; those that wait here go on in that of their names.
// A nil scheduler lets each go on at once.
func (s *scheduler) await(name string) {
	if s == nil {
		return
	}
	turn := make(chan struct{})
	s.enter(waiter{name, func() { close(turn) }})
	<-turn
}

// later calls f when it is its turn, for callers that must not wait.
func (s *scheduler) later(name string, f func()) { s.enter(waiter{name, func() { go f() }}) }

// enter puts a waiter behind those whose names come before its own, or are the same.
func (s *scheduler) enter(w waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.waiting, func(other waiter) bool { return other.name > w.name })
	if at < 0 {
		at = len(s.waiting)
	}
	s.waiting = slices.Insert(s.waiting, at, w)
	s.wakes()
}

// interrupt is called between two messages of a mailbox. The library empties a mailbox in
// one turn; when the order is drawn, others come first once in eight times: it costs as much as a turn.
func (s *scheduler) interrupt(mailbox string) {
	s.mu.Lock()
	breaks := s.rnd != nil && s.rnd.IntN(8) == 0
	s.mu.Unlock()
	if breaks {
		s.await(mailbox)
	}
}

func (s *scheduler) wakes() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Throughput implements actor.Dispatcher. The library makes a pause after so many messages,
// but no end: a turn lasts until the mailbox is empty.
func (s *scheduler) Throughput() int { return 1 }

// turn takes out who is next: in the order of arrival, goroutines that wait come first. It is nil when there is none.
func (s *scheduler) turn() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.waiting) + len(s.ready)
	if n == 0 {
		return nil
	}
	i := 0
	if s.rnd != nil {
		i = s.rnd.IntN(n)
	}
	if i < len(s.waiting) {
		chosen := s.waiting[i]
		s.waiting = slices.Delete(s.waiting, i, i+1)
		return chosen.turn
	}
	i -= len(s.waiting)
	mailbox := s.ready[i]
	s.ready = slices.Delete(s.ready, i, i+1)
	return func() { go mailbox() } // the player waits for its end, by synctest.Wait
}
