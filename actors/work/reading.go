package work

import (
	"fmt"
)

// FilesChanged is the error of a module run that has found other files than those it began with, or
// than those that its values come from. Helm was not asked: a manifest that is made of two versions
// of the files may lack objects that both have (P8).
type FilesChanged struct{ what string }

// Error implements error.
func (e *FilesChanged) Error() string {
	return e.what + " has changed on disk since it was loaded; nothing is installed of a mixture of both"
}

// current returns why the chart that was read now must not be used with the values of the run. They
// go together if the files that a run reads, on disk and in force, are those that the values come from.
func (r releaseJob) current() error {
	known, tree := r.job.Known, r.job.Tree.Load()
	if tree == nil {
		return nil
	}
	m := tree.Module(r.job.Owner)
	switch what := tree.Outdated(r.job.Owner); {
	case what != "" && m != nil && m.Stale() != "":
		return fmt.Errorf("the chart was not loaded before, and the files are not in force: %s", m.Stale())
	case what != "":
		return &FilesChanged{what}
	case !m.SameValues(known.Module) || !tree.Global.Same(known.GlobalFiles):
		return &FilesChanged{m.Shown(m.Dir)} // what is in force was replaced since the values were handed over
	}
	return nil
}
