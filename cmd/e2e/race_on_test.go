//go:build race

package e2e

// overhead is by how much the race detector multiplies the memory of a program.
const overhead = 10
