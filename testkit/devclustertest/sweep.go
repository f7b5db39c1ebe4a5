package devclustertest

import (
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// tempPrefix begins the names of the directories of shared clusters.
const tempPrefix = "devcluster-"

// sweepAge spares a cluster that has its directory and not yet its lock.
const sweepAge = time.Minute

// sweep removes directories of shared clusters that were killed before they
// could remove them; each holds about 100 MB. A running cluster holds the lock
// in its directory. What cannot be removed stays: it belongs to another user.
func sweep(temp string) {
	locks, err := filepath.Glob(filepath.Join(temp, tempPrefix+"*", "lock"))
	if err != nil {
		return // only a wrong pattern
	}
	for _, lock := range locks {
		info, err := os.Stat(lock)
		if err == nil && time.Since(info.ModTime()) > sweepAge && abandoned(lock) {
			_ = os.RemoveAll(filepath.Dir(lock))
		}
	}
}

// abandoned reports whether the lock is free.
func abandoned(lock string) bool {
	file, err := os.OpenFile(lock, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
