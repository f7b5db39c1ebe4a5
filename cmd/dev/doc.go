// Package dev is the command for authors of modules: it runs the operator in this process, on a
// directory, against a cluster in memory or the current one, and prints what each save does, line by
// line. The live page of the operator shows the state as a whole.
//
// session.go starts the operator and turns its log and the ends of its hooks into facts;
// fact.go prints them. place.go prepares directories and cluster, disk.go watches files, check.go runs
// lint and tests.
package dev
