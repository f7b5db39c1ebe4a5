// Package coldstart keeps the garbage collector away from the start of the program.
//
// Initialising libraries makes eight megabytes of tables and as much garbage. The collector, which only reacts to
// each doubling of the heap from four megabytes on, would run six times until a command does something, without
// use: a quarter of the CPU of a short one. A $GOGC of a person stays.
//
// Go initialises packages in the order of their paths, as far as their imports allow. This one imports little and
// its path is early, so it comes before the libraries that make much. It must stay so.
package coldstart

import (
	"os"
	"runtime/debug"
)

func init() { //nolint:gochecknoinits // a function that main calls would be too late
	set(400)
}

// Over restores Go's default, for a process that stays.
func Over() { set(100) }

func set(percent int) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(percent)
	}
}
