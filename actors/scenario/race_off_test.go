//go:build !race

package scenario_test

// raced reports whether the race detector is on.
const raced = false
