//go:build !race

package examples_test

// raced tells whether the race detector is on.
const raced = false
