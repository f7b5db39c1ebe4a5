package hooks

import (
	"fmt"
	"os"
	"syscall"
)

// checkOwner refuses a directory in which another user could replace our files: its owner, or
// anyone who may write to it, can rename the files of a run and read or write others in their
// place. Root is trusted; with the sticky bit, as in /tmp, others cannot rename what is ours.
func checkOwner(path string) error {
	if err := checkOwned(os.Lstat(path)); err != nil { // of a symbolic link
		return err
	}
	info, err := os.Stat(path)
	if err := checkOwned(info, err); err != nil {
		return err
	}
	const othersWrite = 0o022
	if info.Mode().Perm()&othersWrite != 0 && info.Mode()&os.ModeSticky == 0 {
		return fmt.Errorf("others may write to it (mode %04o), and could replace the files of hooks; run chmod go-w, or set a directory in it, which the operator creates", info.Mode().Perm())
	}
	return nil
}

// checkWritable makes and removes a directory of a run.
func checkWritable(path string) error {
	probe, err := makeRunDir(path, "probe", 0)
	if err != nil {
		return fmt.Errorf("it cannot be written to: %w", err)
	}
	return probe.remove()
}

func checkOwned(info os.FileInfo, err error) error {
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if us := os.Geteuid(); ok && stat.Uid != 0 && int(stat.Uid) != us {
		return fmt.Errorf("it belongs to user %d, who could replace the files of hooks; the operator is user %d: give it a directory of its own", stat.Uid, us)
	}
	return nil
}
