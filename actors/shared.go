package actors

import "sync/atomic"

// shared is a value that goroutines share. It is replaced and never modified, so readers take no lock.
type shared[T any] struct{ value atomic.Pointer[T] }

// get returns the present value, which is zero at first.
func (s *shared[T]) get() (value T) {
	if now := s.value.Load(); now != nil {
		value = *now
	}
	return value
}

// change puts what next makes of the value in its place. It calls next again when another goroutine was faster.
func (s *shared[T]) change(next func(T) T) {
	for {
		before := s.value.Load()
		var now T
		if before != nil {
			now = *before
		}
		if now = next(now); s.value.CompareAndSwap(before, &now) {
			return
		}
	}
}
