//go:build race

package examples_test

// raced: run.sh builds its programs without the race detector, so it would find nothing here.
const raced = true
