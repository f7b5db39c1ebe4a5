//go:build race

package actors_test

// raced: the race detector makes everything ten times slower, so tests that repeat do it
// less often; make check plays them in full without it.
const raced = true
