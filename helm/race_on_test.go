//go:build race

package helm

// raced: the race detector makes everything ten times slower, so what takes megabytes is
// left to the part of make test that runs without it.
const raced = true
