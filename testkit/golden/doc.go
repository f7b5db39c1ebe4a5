// Package golden compares what a test made with a file in testdata, which `go test -update` (for all packages
// `make golden`) rewrites. Look at the difference before you commit it: each changed line is a change of behaviour.
//
// All golden files of the project are compared here, so they have one flag, and a difference always looks the same.
package golden
