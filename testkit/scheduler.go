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
	// idle are goroutines that have run mailboxes and can run others, by the channel from which
	// each takes the next one. A new one for each turn would spend a sixth of the time of a play on
	// growing its stack.
	idle []chan func()
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
	s.seed(seed)
	return s
}

// seed draws the order from a seed from now on. Seed 0 changes nothing, and so does a second seed:
// that of the test comes before the one that the script asks for.
func (s *scheduler) seed(seed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seed != 0 && s.rnd == nil {
		s.rnd = rand.New(rand.NewPCG(seed, seed))
	}
}

// Schedule implements actor.Dispatcher.
func (s *scheduler) Schedule(turn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = append(s.ready, turn)
	s.becameReady()
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
func (s *scheduler) later(name string, f func()) { s.enter(waiter{name, func() { s.run(f) }}) }

// enter puts a waiter behind those whose names come before its own, or are the same.
func (s *scheduler) enter(w waiter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := slices.IndexFunc(s.waiting, func(other waiter) bool { return other.name > w.name })
	if at < 0 {
		at = len(s.waiting)
	}
	s.waiting = slices.Insert(s.waiting, at, w)
	s.becameReady()
}

// interrupt is called between two messages of a mailbox. The library empties a mailbox in
// one turn; when the order is drawn, it may end after each message, and others come first.
func (s *scheduler) interrupt(mailbox string) {
	if s.drawsBreak() {
		s.await(mailbox)
	}
}

// drawsBreak is true once in eight times: a break costs as much as a turn. Without a seed it never
// is, so that golden traces depend on arrival only.
func (s *scheduler) drawsBreak() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rnd != nil && s.rnd.IntN(8) == 0
}

func (s *scheduler) becameReady() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// woken receives when there may be a turn to take.
func (s *scheduler) woken() <-chan struct{} { return s.wake }

// Throughput implements actor.Dispatcher. The library makes a pause after so many messages,
// but no end: a turn lasts until the mailbox is empty.
func (s *scheduler) Throughput() int { return 1 }

// turn lets one mailbox, or one goroutine that waits, go on. It reports false when there
// is none.
func (s *scheduler) turn() bool {
	turn := s.draw()
	if turn == nil {
		return false
	}
	turn()
	return true
}

// draw takes out who is next: in the order of arrival, goroutines that wait come first.
func (s *scheduler) draw() func() {
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
	return func() { s.run(mailbox) }
}

// run runs a mailbox in a goroutine that is idle, or in a new one. It does not wait: the player
// does, by synctest.Wait. A turn that waits in the middle (await) keeps its goroutine.
func (s *scheduler) run(mailbox func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if last := len(s.idle) - 1; last >= 0 {
		s.idle[last] <- mailbox
		s.idle = s.idle[:last]
		return
	}
	next := make(chan func(), 1) // one element: the send above is done with the lock held
	go func() {
		for mailbox := range next {
			mailbox()
			s.mu.Lock()
			s.idle = append(s.idle, next)
			s.mu.Unlock()
		}
	}()
	next <- mailbox
}

// end lets the goroutines go that are idle: nothing will run any more.
func (s *scheduler) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, next := range s.idle {
		close(next)
	}
	s.idle = nil
}
