package supervisor

import "sync/atomic"

// Shared is a value that goroutines share. It is replaced and never modified, so readers take no
// lock.
type Shared[T any] struct{ value atomic.Pointer[T] }

// Get returns the present value, which is zero at first.
func (s *Shared[T]) Get() (value T) {
	if now := s.value.Load(); now != nil {
		value = *now
	}
	return value
}

// Change replaces the value by the result of next. It calls next again when another goroutine was
// faster, so next must have no effects.
func (s *Shared[T]) Change(next func(T) T) {
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
