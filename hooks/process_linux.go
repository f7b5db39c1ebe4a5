package hooks

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// rssUnit is the unit of the kernel's figure for resident memory, in bytes.
const rssUnit = 1 << 10

// awaitExit waits for the end of a child and leaves it to be reaped by somebody else.
func awaitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// dieWithParent lets the kernel kill a hook whose operator was killed: another operator may take over, and the two must
// not act side by side (L5). What the hook has started is killed by nobody but the end of the container, or a Keeper.
func dieWithParent(attributes *syscall.SysProcAttr) *syscall.SysProcAttr {
	attributes.Pdeathsig = syscall.SIGKILL
	return attributes
}
