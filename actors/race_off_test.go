//go:build !race

package actors_test

// raced reports whether the race detector is on.
const raced = false
