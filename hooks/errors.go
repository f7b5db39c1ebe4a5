package hooks

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
)

// ExitError says that a hook, or an enabled script, has failed by its own account. Its result files are ignored (C26).
type ExitError struct {
	Hook   string
	Code   int            // the exit code; -1 when a signal ended the process
	Signal syscall.Signal // 0 unless a signal ended the process
	Stderr string         // the last lines of stderr: at most 20 and 4 KB
}

// Error names the hook, how it ended and what it said at last.
func (e *ExitError) Error() string {
	text := fmt.Sprintf("hook %s: exit code %d", e.Hook, e.Code)
	if e.Signal != 0 {
		text = fmt.Sprintf("hook %s: ended by signal %d (%s)", e.Hook, int(e.Signal), e.Signal)
	}
	switch {
	case e.Stderr == "":
		return text + ", nothing on stderr"
	case strings.Contains(e.Stderr, "\n"):
		return text + ", stderr ends with:\n" + e.Stderr
	}
	return text + ": " + e.Stderr
}

func newExitError(hook string, exit *exec.ExitError, stderr string) *ExitError {
	e := &ExitError{Hook: hook, Code: exit.ExitCode(), Stderr: stderr}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.Signal = status.Signal()
	}
	return e
}
