//go:build !race

package actors_test

// raced tells whether the race detector is on.
const raced = false
