//go:build !race

package main_test

// overhead is by how much the race detector multiplies the memory of a program; it is off.
const overhead = 1
