package operator

import (
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// limitMemory sets the memory limit of the container in the runtime, so that it collects garbage
// before the kernel kills the process. A GOMEMLIMIT in the environment wins.
func limitMemory(log *slog.Logger) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return // the runtime has read it
	}
	if limit := goMemoryLimit(os.DirFS("/")); limit > 0 {
		debug.SetMemoryLimit(limit)
		log.Debug("memory limit taken from the container", "goMemoryLimit", limit)
	}
}

// goMemoryLimit is 90 % of the smallest memory limit of the control groups that this process is in,
// in bytes; 0 for none. The rest is for what the runtime does not count: the program itself, and
// pages of files.
func goMemoryLimit(root fs.FS) int64 {
	const percent = 90
	if limit := containerMemory(root); limit > 0 {
		return limit / 100 * percent
	}
	return 0
}

// containerMemory reads the limit from version 2 of control groups, or from version 1. The path of
// a group is as the process sees it, or, without a namespace of control groups, as the machine
// does: then only the mount itself has a file. A parent may have a smaller limit.
func containerMemory(root fs.FS) (least int64) {
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(groups)) { // number:controllers:path
		_, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		mount, file := "sys/fs/cgroup", "memory.max"
		if controllers != "" {
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		}
		if controllers != "" && !strings.Contains(","+controllers+",", ",memory,") {
			continue
		}
		for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
			if limit := limitIn(root, path.Join(mount, dir, file)); limit > 0 && (least == 0 || limit < least) {
				least = limit
			}
			if dir == "/" {
				break
			}
		}
	}
	return least
}

// limitIn reads a limit in bytes; 0 when there is none. Version 1 represents none by a number that is
// near the largest.
func limitIn(root fs.FS, file string) int64 {
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return 0
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || limit > math.MaxInt64/2 { // "max" is no number
		return 0
	}
	return limit
}
