//go:build race

package scenario_test

// raced: the race detector makes everything slower; what plays the same code many times is
// left to make test.
const raced = true
