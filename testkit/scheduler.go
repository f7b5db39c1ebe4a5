package testkit

import (
	"math/rand/v2"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
)

// Scheduler is a dispatcher that hands out turns one at a time, so that a test decides
// in which order mailboxes run. It is called from timers and runs too, hence the lock.
type Scheduler struct {
	mu    sync.Mutex
	ready []func()
	rnd   *rand.Rand // nil: in the order of arrival
	wake  chan struct{}
}

var _ actor.Dispatcher = (*Scheduler)(nil)

// NewScheduler returns a scheduler that draws the order from a seed; seed 0 keeps the
// order of arrival.
func NewScheduler(seed uint64) *Scheduler {
	s := &Scheduler{wake: make(chan struct{}, 1)}
	s.Draw(seed)
	return s
}

// Draw draws the order from a seed from now on. Seed 0 changes nothing.
func (s *Scheduler) Draw(seed uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seed != 0 && s.rnd == nil {
		s.rnd = rand.New(rand.NewPCG(seed, seed))
	}
}

// Schedule implements actor.Dispatcher.
func (s *Scheduler) Schedule(turn func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready = append(s.ready, turn)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Wake receives when there may be a turn to take.
func (s *Scheduler) Wake() <-chan struct{} { return s.wake }

// Throughput implements actor.Dispatcher. The library makes a pause after so many messages,
// but no end: a turn lasts until the mailbox is empty.
func (s *Scheduler) Throughput() int { return 1 }

// Turn runs one mailbox until it is empty. It reports false when none is ready.
func (s *Scheduler) Turn() bool {
	turn := s.draw()
	if turn == nil {
		return false
	}
	turn()
	return true
}

func (s *Scheduler) draw() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ready) == 0 {
		return nil
	}
	i := 0
	if s.rnd != nil {
		i = s.rnd.IntN(len(s.ready))
	}
	turn := s.ready[i]
	s.ready = append(s.ready[:i], s.ready[i+1:]...)
	return turn
}
