package hooks

import (
	"bytes"
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
// (C29). That includes everything the process starts later, which inherits the score, and what it
// has started already, which is possible on a busy machine: the score is set after the start.
// Raising the score needs no privilege. If it fails, only that order is lost.
func offerToOOMKiller(pid int) {
	const most = 100 // a hook may start thousands, and starts more meanwhile
	for family := []int{pid}; len(family) > 0; family = family[1:] {
		one := strconv.Itoa(family[0])
		_ = os.WriteFile(filepath.Join("/proc", one, "oom_score_adj"), []byte("1000"), 0) // children from now on inherit it
		if len(family) < most {
			family = append(family, startedBy(one, one)...)
		}
	}
}

// startedBy lists the children that a thread of a process has started and that are not reaped.
func startedBy(process, thread string) (children []int) {
	list, _ := os.ReadFile(filepath.Join("/proc", process, "task", thread, "children")) // the thread may have ended
	for child := range bytes.FieldsSeq(list) {
		if pid, err := strconv.Atoi(string(child)); err == nil {
			children = append(children, pid)
		}
	}
	return children
}

// peakMemory returns the largest resident memory, in bytes, that a process or one of its
// descendants has had since each of them began. It is 0 when all of them have ended, or cannot be
// read. Descendants that another thread than the first has started are seen only with threads.
//
// Whatever is read below /proc becomes an entry in a cache of the kernel, which is removed when the
// process ends. Threads that end together and have such entries wait for each other in a busy loop,
// in the parent's wait: milliseconds for each jq.
func peakMemory(pid int, threads bool) int64 {
	const most = 100 // a hook may start thousands, and starts more meanwhile
	var peak int64
	for family := []int{pid}; len(family) > 0; family = family[1:] {
		one := strconv.Itoa(family[0])
		dir := filepath.Join("/proc", one)
		status, err := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil {
			continue
		}
		peak = max(peak, highWater(status))
		tasks := []string{one}
		if threads || family[0] == pid {
			tasks = threadsOf(dir)
		}
		for _, task := range tasks {
			if children := startedBy(one, task); len(family) < most {
				family = append(family, children[:min(len(children), most-len(family))]...)
			}
		}
	}
	return peak
}

// threadsOf lists the threads of a process. It does not use a pattern, which would look at the
// fifty files of each.
func threadsOf(dir string) (names []string) {
	tasks, _ := os.ReadDir(filepath.Join(dir, "task")) // the process may have ended
	for _, task := range tasks {
		names = append(names, task.Name())
	}
	return names
}

// highWater reads the line of /proc/PID/status that a process has while it runs: "VmHWM:     3456
// kB".
func highWater(status []byte) int64 {
	_, rest, found := bytes.Cut(status, []byte("\nVmHWM:"))
	fields := bytes.Fields(rest)
	if !found || len(fields) == 0 {
		return 0
	}
	n, err := strconv.ParseInt(string(fields[0]), 10, 64)
	if err != nil {
		return 0
	}
	return n * rssUnit
}
