//go:build !race

package examples_test

// raced reports whether the race detector is on.
const raced = false
