package hooks

import (
	"os"
	"path/filepath"
	"syscall"
)

// claim removes what an operator that was killed has left in the directory for temporary files, and
// marks the directory as used. The mark is a lock that all operators on a directory share and that
// ends with its process: whoever gets it exclusively knows that no other operator has runs there.
// The files hold values, so they must not stay for the next reader. claim returns the open
// directory, which must stay open as long as runs lie in it; failures are only logged.
func claim(options Options) *os.File {
	dir, err := os.Open(options.TmpDir)
	if err != nil {
		options.Log.Warn("files of earlier runs cannot be listed", "path", options.TmpDir, "err", err)
		return nil
	}
	lock := func(how int) error { return syscall.Flock(int(dir.Fd()), how) }
	if lock(syscall.LOCK_EX|syscall.LOCK_NB) == nil && !options.KeepFiles {
		removeRuns(options)
	}
	if err := lock(syscall.LOCK_SH); err != nil { // a file system without locks: then nothing is removed
		options.Log.Debug("the directory for temporary files cannot be locked", "path", options.TmpDir, "err", err)
	}
	return dir
}

// removeRuns removes the directories of all runs.
func removeRuns(options Options) {
	left, _ := filepath.Glob(filepath.Join(options.TmpDir, runPrefix+"*"))
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			options.Log.Warn("files of an earlier run cannot be removed", "path", path, "err", err)
			continue
		}
		options.Log.Info("files of a run that an earlier operator could not finish are removed", "path", path)
	}
}
