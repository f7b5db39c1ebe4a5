//go:build !race

package values

import "flag"

const raceDetector = false

var thorough = flag.Bool("thorough", false, "repeat tests of random values in full; make check does")

// often is how often a test repeats: in full in make check, else a quarter of that.
func often[T int | uint64](n T) T {
	if *thorough {
		return n
	}
	return n / 4
}
