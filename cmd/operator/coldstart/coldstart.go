// Package coldstart makes the start of the program quick. It must import nothing but the
// runtime: Go initialises packages that are ready by the order of their paths, and this one
// has to be ready, and comes, before the libraries, all of whose paths begin with a later
// letter.
//
// Initialising them makes eight megabytes of tables and as much garbage. The garbage
// collector, which knows only that the heap doubles from four megabytes again and again,
// would run six times until the first hook is started, for nothing: a quarter of the time.
package coldstart

import "runtime/debug"

// percent lets the first collection come at 16 MB of heap.
const percent = 400

// usual is what Go, or GOGC, says. That a variable is initialised is the only way to be
// early enough.
var usual = debug.SetGCPercent(percent)

// Over ends the exception: the process has started, and what it keeps counts again. A
// command that only asks a running operator ends before that.
func Over() { debug.SetGCPercent(usual) }
