package testkit

import (
	"fmt"
	"hash/fnv"
	"time"
)

// jitter draws how long things take, so that no two of them end at the same instant:
// what happens at one instant happens in an order that no seed can fix. Its zero value
// draws nothing. The lock of its user guards it.
type jitter struct {
	seed  uint64
	drawn map[string]int // how often, by name; nil: nothing is drawn
}

func newJitter(seed uint64) jitter { return jitter{seed, map[string]int{}} }

// next is the duration of the next run of a thing: 1 ns to 50 ms. It depends on nothing but the
// seed, the name and how often it was asked for: a source of random numbers would make it depend on
// the order of the calls.
func (j jitter) next(name string) time.Duration {
	if j.drawn == nil {
		return 0
	}
	j.drawn[name]++
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s %d", j.seed, name, j.drawn[name])
	const longest = 50 * time.Millisecond
	return 1 + time.Duration(h.Sum64()%uint64(longest))
}
