// Package dev is the command for who writes modules: the operator in this process, on a directory, against a cluster in
// memory or the current one, with a view of what happens on each save.
//
// What happens comes to one loop (session.go), in the order in which it was seen: records of the operator's log, runs of
// hooks, answers of its pages, files that were saved, findings and tests. The loop makes facts of it (board.go), and the
// state that is shown. Either is printed line by line (plain.go), or shown in the terminal (view.go).
package dev
