package hooks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// drainTime is how long the output of a hook that has ended may stay open. Only a process that has
// left the group, such as a daemon, can keep it open that long.
const drainTime = 2 * time.Second

// process is one execution of an executable file in a process group of its own, so that everything
// that it starts can be ended with it (C29).
type process struct {
	name   string // for errors: the hook's name
	path   string
	args   []string
	env    []string // added to what it inherits
	stdout io.Writer
	stderr *lineLog
	grace  time.Duration
	limit  limit
	root   string // see Options.Chroot
	groups *groups
	gated  bool // starts only when Options.May allows it
}

// limit is how long a process may run, and the setting that says so, for the error. 0 means no
// limit.
type limit struct {
	time   time.Duration
	source string
}

// run is runUntil with the time limit of the process (C29). A process that reaches it is ended as
// if ctx were cancelled, but it has failed: the error is a *TimeoutError. If ctx ends as well, that
// counts: the caller has no use for the result.
func (p process) run(ctx context.Context) (Usage, error) {
	if p.limit.time <= 0 {
		return p.runUntil(ctx)
	}
	limited, cancel := context.WithTimeout(ctx, p.limit.time)
	defer cancel()
	usage, err := p.runUntil(limited)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return usage, &TimeoutError{Hook: p.name, Limit: p.limit.time, Source: p.limit.source, Stderr: p.stderr.ending()}
	}
	return usage, err
}

// runUntil starts the process in the directory of its file (X1), and returns when it and its whole
// group are gone. An exit code other than 0 is an *ExitError. If ctx is cancelled, the error is its
// cause, whatever the exit code. The usage is filled in once the process has started.
//
// The order at the end matters: the leader ends but is not reaped, so its number is still reserved;
// the rest of the group is killed; the group is unregistered; only then Wait reaps the leader and
// waits for its output.
func (p process) runUntil(ctx context.Context) (Usage, error) {
	if err := ctx.Err(); err != nil {
		return Usage{}, fmt.Errorf("hook %s: not started: %w", p.name, stopCause(ctx))
	}
	// For the kernel the end of the thread that started a process is the end of its parent (see
	// dieWithParent). This goroutine waits for the process anyway, so it keeps its thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	started := time.Now()
	cmd, process, err := p.start()
	if err != nil {
		return Usage{}, fmt.Errorf("hook %s: %w", p.name, err)
	}
	group := process.group
	unwatched := group.superviseUntilExit(ctx, p.grace)
	ended := ctx.Err() == nil
	// Whatever the hook has started in its group ends with it; otherwise a forgotten "sleep &"
	// would keep the output open.
	group.signal(syscall.SIGKILL)
	p.groups.remove(process)
	err = cmd.Wait()
	usage := usageOf(cmd.ProcessState, time.Since(started))
	p.stderr.flush()
	if errors.Is(err, exec.ErrWaitDelay) {
		p.stderr.log.Warn("a process that the hook left behind kept its output open; redirect the output of that process to a file")
		err = nil
	}
	// A deadline that passes while the output of a hook is drained was not missed: the hook has
	// ended by itself before.
	if err := ctx.Err(); err != nil && !(ended && errors.Is(err, context.DeadlineExceeded)) {
		return usage, fmt.Errorf("hook %s: stopped: %w", p.name, stopCause(ctx))
	}
	if unwatched != nil {
		return usage, fmt.Errorf("hook %s: wait for its end: %w", p.name, unwatched)
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return usage, newExitError(p.name, exit, p.stderr.ending())
	case err != nil:
		return usage, fmt.Errorf("hook %s: %w", p.name, err)
	}
	return usage, nil
}

// smallReads copies with a small buffer: io.Copy makes 32 KiB for each stream, and most hooks print little.
type smallReads struct{ io.Writer }

// ReadFrom implements io.ReaderFrom.
func (s smallReads) ReadFrom(r io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{s.Writer}, r, make([]byte, 4<<10))
}

// start starts the execution. A script that was written a moment ago may still be open for writing
// in a child that another goroutine is forking just then; the kernel then answers "text file busy",
// for some microseconds, or longer where the processor is throttled. Ten attempts take a second.
func (p process) start() (*exec.Cmd, *started, error) {
	for attempt := 0; ; attempt++ {
		path := inside(p.root, p.path)
		cmd := exec.Command(path, p.args...)
		cmd.Dir = filepath.Dir(path)
		cmd.Env = append(inherited(os.Environ()), p.environment()...)
		cmd.Stdout, cmd.Stderr = smallReads{p.stdout}, smallReads{p.stderr}
		cmd.SysProcAttr = dieWithParent(&syscall.SysProcAttr{Setpgid: true, Chroot: p.root})
		cmd.WaitDelay = drainTime
		process, err := p.groups.start(cmd, p.gated)
		if errors.Is(err, syscall.ETXTBSY) && attempt < 10 {
			time.Sleep(time.Millisecond << attempt)
			continue
		}
		return cmd, process, p.explainStart(err)
	}
}

// explainStart adds how to fix it to the errors whose text alone misleads. It leaves out the path:
// errors name the hook.
func (p process) explainStart(err error) error {
	if about, ok := errors.AsType[*fs.PathError](err); ok {
		err = fmt.Errorf("%s: %w", about.Op, about.Err)
	}
	if !errors.Is(err, syscall.ENOEXEC) && !errors.Is(err, syscall.ENOENT) {
		return err
	}
	if why := CheckInterpreter(p.root, p.path); why != nil {
		return fmt.Errorf("%w; %w", err, why)
	}
	return err
}

// stopCause returns an error for both errors.Is(err, context.Canceled) and the cause that the
// canceller has set.
func stopCause(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

// group is a process group, which the kernel names by the id of its leader.
type group int

// signal sends a signal to all processes of the group.
func (g group) signal(signal syscall.Signal) {
	// The only error is that the group is empty, which is what every signal here is for.
	_ = syscall.Kill(-int(g), signal)
}

// superviseUntilExit returns when the leader has ended. When ctx is cancelled it sends SIGTERM to
// the group, and SIGKILL after grace. When it returns it sends no signal any more, and the leader
// is not reaped yet: until then its id, which is the id of the group, cannot belong to another
// process. An error means that it could not wait, not that the process has failed.
func (g group) superviseUntilExit(ctx context.Context, grace time.Duration) error {
	exited, exit := context.WithCancel(context.WithoutCancel(ctx))
	stopped, stop := context.WithCancel(context.WithoutCancel(ctx))
	unregister := context.AfterFunc(ctx, func() {
		defer stop()
		g.signal(syscall.SIGTERM)
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-exited.Done():
		case <-timer.C:
			g.signal(syscall.SIGKILL)
		}
	})
	err := awaitExit(int(g))
	exit()
	// The function has been called already: wait until it has sent its last signal.
	if !unregister() {
		<-stopped.Done()
	}
	stop()
	return err
}

// errKilled is the reason why no process starts any more.
var errKilled = errors.New("this operator must not act any more: it has lost the leadership, or crashed")

// groups are the process groups that run, so that all of them can be killed at once. may is
// Options.May.
//
// A number of a group must not be signalled after its leader was reaped, because it may belong to
// another program then. So a run calls remove before it reaps the process, and remove waits while
// kill is about to signal the group: whoever deletes the entry from running is first.
type groups struct {
	may     func() error
	killed  atomic.Bool
	running sync.Map // of *started
}

// started is a process from before its start until it is reaped.
type started struct {
	group  group         // 0 when it could not be started
	begun  chan struct{} // closed when group is known
	killed chan struct{} // closed when kill, which found it, has killed it
}

// start starts a process unless it must not. It stores the process before it looks at killed, and
// kill sets killed before it looks at the processes: at least one of the two notices the other.
func (g *groups) start(cmd *exec.Cmd, gated bool) (*started, error) {
	s := &started{begun: make(chan struct{}), killed: make(chan struct{})}
	g.running.Store(s, nil)
	defer close(s.begun) // also when may panics: kill waits for it
	err := g.begin(s, cmd, gated)
	if err != nil {
		g.running.Delete(s)
	}
	return s, err
}

// begin starts the process and registers its group. gated processes are those that act on the
// cluster; questions such as --config start also in a follower.
func (g *groups) begin(s *started, cmd *exec.Cmd, gated bool) error {
	if g.killed.Load() {
		return errKilled
	}
	if gated && g.may != nil {
		if err := g.may(); err != nil {
			return err
		}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	offerToOOMKiller(cmd.Process.Pid)
	s.group = group(cmd.Process.Pid)
	if gated && g.may != nil && g.may() != nil {
		// The operator was stopped in between, and continued after its time. The run reports the
		// kill.
		s.group.signal(syscall.SIGKILL)
	}
	return nil
}

// remove forgets a group whose leader has ended but is not reaped: until then its number cannot be
// that of another program. It returns when kill does not use the number any more.
func (g *groups) remove(s *started) {
	if _, mine := g.running.LoadAndDelete(s); !mine {
		<-s.killed
	}
}

// kill kills all groups. It returns when that is done; from then on nothing starts any more.
func (g *groups) kill() {
	g.killed.Store(true) // first: what is stored in running after this is not started
	for key := range g.running.Range {
		s, _ := key.(*started)
		<-s.begun
		if _, mine := g.running.LoadAndDelete(s); mine {
			if s.group != 0 {
				s.group.signal(syscall.SIGKILL)
			}
			close(s.killed)
		}
	}
}

// inherited are the variables of the operator that hooks and enabled scripts get: all but the headers with which the
// operator authenticates to a collector of traces, which contain tokens (OTEL_EXPORTER_OTLP_HEADERS,
// OTEL_EXPORTER_OTLP_TRACES_HEADERS and so on). It is never nil, which exec.Cmd takes for all variables.
func inherited(environment []string) []string {
	return slices.DeleteFunc(append([]string{}, environment...), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "OTEL_EXPORTER_OTLP_") && strings.HasSuffix(name, "HEADERS")
	})
}
