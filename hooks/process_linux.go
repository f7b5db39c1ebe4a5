package hooks

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// rssUnit is the unit in which the kernel reports resident memory, in bytes.
const rssUnit = 1 << 10

// awaitExit waits for the end of a child without reaping it (see superviseUntilExit).
func awaitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// dieWithParent makes the kernel kill a hook whose operator was killed: another operator may take
// over, and the two must not act at the same time (L5). The processes that the hook has started are
// killed only by the end of the container.
func dieWithParent(attributes *syscall.SysProcAttr) *syscall.SysProcAttr {
	attributes.Pdeathsig = syscall.SIGKILL
	return attributes
}

// offerToOOMKiller makes the kernel kill a new process before the operator when memory runs out
// (C29), and everything that the process starts later, which inherits the score. Raising the score
// needs no privilege. If it fails, only that order is lost.
func offerToOOMKiller(pid int) {
	_ = os.WriteFile(filepath.Join("/proc", strconv.Itoa(pid), "oom_score_adj"), []byte("1000"), 0)
}
