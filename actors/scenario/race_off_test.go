//go:build !race

package scenario_test

// raced tells whether the race detector is on.
const raced = false
