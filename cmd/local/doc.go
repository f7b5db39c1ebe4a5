// Package local has the commands for authors of modules, which need no operator and no
// cluster: check, try hooks, play tests.
package local
