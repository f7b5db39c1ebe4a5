package hooks

import (
	"errors"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// rssUnit is the unit of the kernel's figure for resident memory, in bytes.
const rssUnit = 1

// awaitExit waits for the end of a child without reaping it (see superviseUntilExit).
func awaitExit(pid int) error {
	const byPID = 1
	// The kernel writes a siginfo_t of about 100 bytes, which is not read.
	var info [16]uint64
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(pid), uintptr(unsafe.Pointer(&info)), syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		switch {
		case errno == 0:
			return nil
		case !errors.Is(errno, syscall.EINTR):
			return errno
		}
	}
}

// dieWithParent has no counterpart here: a hook outlives an operator that was killed.
func dieWithParent(attributes *syscall.SysProcAttr) *syscall.SysProcAttr { return attributes }

// offerToOOMKiller has no counterpart here.
func offerToOOMKiller(int) {}
