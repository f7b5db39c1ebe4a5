package e2e

import "syscall"

const tmpSize = "size=4m"

func mountTmpfs(path string) error {
	return syscall.Mount("tmpfs", path, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, tmpSize)
}

func remount(path string, readOnly bool) error {
	flags := uintptr(syscall.MS_REMOUNT | syscall.MS_NOSUID | syscall.MS_NODEV)
	if readOnly {
		flags |= syscall.MS_RDONLY
	}
	return syscall.Mount("tmpfs", path, "tmpfs", flags, tmpSize)
}

func unmount(path string) error { return syscall.Unmount(path, syscall.MNT_DETACH) }
