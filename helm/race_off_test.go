//go:build !race

package helm

// raced tells whether the race detector is on.
const raced = false
