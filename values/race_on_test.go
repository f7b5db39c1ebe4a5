//go:build race

package values

// often is how often a test repeats: the race detector makes everything ten times slower,
// and make check repeats in full without it.
func often[T int | uint64](n T) T { return n / 10 }
