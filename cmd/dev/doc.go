// Package dev is the command for authors of modules: it runs the operator in this process, on a
// directory, against a cluster in memory or the current one, and shows what each save does.
//
// All events come to one loop (session.go), in the order in which they were seen: records of the
// operator's log, runs of hooks, answers of its pages, files that were saved, findings and tests.
// They wait in a bounded mailbox (mail.go). The loop turns them into facts, each shown once, and
// into the state that is shown (board.go). Both are printed line by line (plain.go), or drawn in
// the terminal (view.go, draw.go). Only the loop touches the board; the view is a value of the
// library that draws it.
//
// place.go prepares directories and cluster, disk.go watches files, check.go runs lint and tests.
package dev
