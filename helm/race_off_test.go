//go:build !race

package helm

// raced reports whether the race detector is on.
const raced = false
