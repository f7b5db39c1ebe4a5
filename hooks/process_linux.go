package hooks

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// rssUnit is the unit of the kernel's figure for resident memory, in bytes.
const rssUnit = 1 << 10

// awaitExit waits for the end of a child and leaves it to be reaped elsewhere.
func awaitExit(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// dieWithParent lets the kernel kill a hook whose operator was killed: another operator may take over, and the two must
// not act side by side (L5). What the hook has started is killed only by the end of the container, or a Keeper.
func dieWithParent(attributes *syscall.SysProcAttr) *syscall.SysProcAttr {
	attributes.Pdeathsig = syscall.SIGKILL
	return attributes
}

// offerToOOMKiller has the kernel kill a process that has just begun before the operator when memory runs out, with what it
// starts, and what its first thread and theirs have started already: on a busy machine that is possible.
// Raising the score needs no privilege. Without it only that order is lost.
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

// startedBy lists the children that a thread of a process has started and that were not reaped.
func startedBy(process, thread string) (children []int) {
	list, _ := os.ReadFile(filepath.Join("/proc", process, "task", thread, "children")) // the thread may have ended
	for child := range bytes.FieldsSeq(list) {
		if pid, err := strconv.Atoi(string(child)); err == nil {
			children = append(children, pid)
		}
	}
	return children
}

// machineClock is one for all processes of the machine; it goes on while the machine is suspended.
func machineClock() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		panic(err) // since Linux 2.6.39 there is no way to fail
	}
	return time.Duration(now.Nano())
}

// childrenOf lists the children of a process, including those that were not reaped.
func childrenOf(parent int) (children []int) {
	paths, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is good
	for _, path := range paths {
		if fields := afterCommand(path); len(fields) < 2 || string(fields[1]) != strconv.Itoa(parent) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			children = append(children, pid)
		}
	}
	return children
}

// isStopped reports whether a process was stopped by a signal.
func isStopped(pid int) bool {
	fields := afterCommand(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return len(fields) > 0 && string(fields[0]) == "T"
}

// afterCommand reads what the kernel says of a process: pid (command) state ppid …, from the state on; the command may hold
// anything. Of one that has ended it is nothing.
func afterCommand(path string) [][]byte {
	stat, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
}

// peakMemory is the largest resident memory that a process, or one of its children and theirs, has had since each of them
// began, in bytes. It is 0 when all of them have ended, or cannot be looked at. Children of children that another thread
// than the first has started are seen with threads only.
//
// Whatever is looked at below /proc becomes an entry in a cache of the kernel, which is removed when the process ends. Threads
// that end together and have such entries wait for each other in a busy loop, in the parent's wait: milliseconds for each jq.
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

// threadsOf lists the threads of a process, without the fifty files of each, which a pattern would have looked at.
func threadsOf(dir string) (names []string) {
	tasks, _ := os.ReadDir(filepath.Join(dir, "task")) // the process may have ended
	for _, task := range tasks {
		names = append(names, task.Name())
	}
	return names
}

// highWater reads the line of /proc/PID/status that a process has while it runs: "VmHWM:     3456 kB".
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
