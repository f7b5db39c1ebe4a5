package operator

import (
	"io/fs"
	"log/slog"
	"math"
	"os"
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

// goMemoryLimit is 90 % of the memory limit of the container, in bytes; 0 for none. The rest is for what the
// runtime does not count: the program itself, and pages of files. In a container the root of the mount is its own
// control group, of version 2 or of version 1, which represents no limit by a number that is near the largest.
func goMemoryLimit(root fs.FS) int64 {
	const percent = 90
	for _, file := range []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			continue
		}
		limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && limit < math.MaxInt64/2 { // "max" is no number
			return max(0, limit/100*percent)
		}
	}
	return 0
}
