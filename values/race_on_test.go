//go:build race

package values

// raceDetector: what takes and gives back megabytes is measured without it. It makes pools forget
// what they hold, so patterns allocate at each use.
const raceDetector = true

// often is how often a test repeats: the race detector makes everything ten times slower,
// and make check repeats in full without it.
func often[T int | uint64](n T) T { return n / 10 }
