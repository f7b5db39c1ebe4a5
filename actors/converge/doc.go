// Package converge is the actor converge: it reloads all modules (seed 001; steps 3 to 8 of seed 002). It puts the steps
// into the main queue, decides which modules are enabled, and knows whether the first converge is over, which is readiness.
//
// converge.go receives; the state is in its parts: the catalog of modules (catalog.go, off.go, problems.go), the reloads
// and their phases (reloads.go, phase.go), the watch of the disk (disk.go), and purges
// (purge.go). steps.go makes tasks of what a discovery leads to.
package converge
