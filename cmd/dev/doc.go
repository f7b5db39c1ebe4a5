// Package dev is the command for authors of modules: it runs the operator in this process, on a
// directory, against a cluster in memory or the current one, and prints what each save does, line by
// line. The live page of the operator shows the state as a whole.
//
// session.go starts the operator, turns its log and the ends of its hooks into facts, and prints them.
// place.go prepares directories and cluster; check.go watches files, and runs lint and tests.
package dev
