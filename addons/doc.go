// Package addons reads the files on disk: the directories of modules and of global hooks, their
// names and order, their static values and their schemas.
//
// It starts nothing: it only finds hooks and enabled scripts, and package hooks runs them. It does
// not use the cluster or actors.
//
// A [Tree] is what was loaded at one moment. [Load] makes the first one, [Tree.Refresh] the next
// ones from it: files that have not changed are not loaded again, and files that do not load keep
// their last version that did (P8). [Watch] reports that a refresh may be due.
package addons
