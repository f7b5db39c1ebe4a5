//go:build !race

package values

// often is how often a test repeats; less with the race detector.
func often[T int | uint64](n T) T { return n }
