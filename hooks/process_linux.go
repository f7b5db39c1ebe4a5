package hooks

import (
	"errors"

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
