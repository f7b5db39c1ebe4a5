package hooks

import (
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// ExitError means that a hook, or an enabled script, has failed by itself. Its result files are
// ignored, except for object patches with ignoreHookError (C26, K9).
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
	return text + said(e.Stderr)
}

// Public is the error without what the hook said, which may be secret.
func (e *ExitError) Public() string {
	if e.Signal != 0 {
		return fmt.Sprintf("hook %s was ended by signal %d (%s)", e.Hook, int(e.Signal), e.Signal)
	}
	return fmt.Sprintf("hook %s failed with exit code %d", e.Hook, e.Code)
}

// TimeoutError means that a run was ended because it took too long (C29). Its result files are
// ignored like those of an ExitError.
type TimeoutError struct {
	Hook   string
	Limit  time.Duration
	Source string // the setting that holds the limit, which is what to change
	Stderr string // as in ExitError
}

// Error names the hook, the limit, where it was set, and what the hook said at last.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("hook %s: ended because it took longer than %s (%s)%s", e.Hook, e.Limit, e.Source, said(e.Stderr))
}

// Public is the error without what the hook said, which may be secret.
func (e *TimeoutError) Public() string {
	return fmt.Sprintf("hook %s took longer than %s (%s)", e.Hook, e.Limit, e.Source)
}

// PrintedError means that what a hook printed for --config is no configuration.
type PrintedError struct {
	Hook    string
	Printed []byte // all of it
	Err     error  // a *ConfigError, or why the text cannot be read at all
}

// Error shows the beginning of what the hook printed.
func (e *PrintedError) Error() string {
	return fmt.Sprintf("hook %s: %s\nit printed: %s", e.Hook, e.Err, shorten(e.Printed, 200))
}

// Unwrap returns what is wrong.
func (e *PrintedError) Unwrap() error { return e.Err }

// said is the end of a message that quotes stderr.
func said(stderr string) string {
	switch {
	case stderr == "":
		return ", nothing on stderr"
	case strings.Contains(stderr, "\n"):
		return ", stderr ends with:\n" + stderr
	}
	return ": " + stderr
}

func newExitError(hook string, exit *exec.ExitError, stderr string) *ExitError {
	e := &ExitError{Hook: hook, Code: exit.ExitCode(), Stderr: stderr}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.Signal = status.Signal()
	}
	return e
}
