package hooks

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// Keeper is a small child process of the operator that kills its hooks, and everything that they
// started in their process groups, when the operator cannot: when it was killed, or when it was
// stopped (SIGSTOP) and has not reported in time that it is alive. With several replicas the next
// one takes over then, and the hooks of both would act at the same time (L5).
//
// Why the hooks of two replicas never act at the same time, as long as the Keeper itself gets to
// run:
//
//   - The leader may act for the renew deadline after the beginning of its last successful renewal,
//     and only that long. The next one acts at the earliest one lease duration after that renewal.
//     All deadlines count from before the request was sent, and are sent to the Keeper as points on
//     the clock of the machine: a process that is stopped between computing one and sending it sends
//     one that has passed.
//   - At the renew deadline the Keeper kills the groups it knows, and every other child of the
//     operator: one that was stopped in the middle of starting a hook had no time to report it. It
//     looks for these while the operator is stopped, too: a kill of the operator leaves them running.
//   - Halfway between the renew deadline and the end of the lease it kills the operator, unless that
//     has ended by itself: one that continues later would go on where it was, perhaps between the
//     last look at the lease and the start of a hook. One that continues earlier looks again right
//     after such a start, and kills.
//
// This leaves half the time between the two deadlines for the delays of the machine each time: 2.5
// s unless set otherwise.
//
// The orders are lines on the stdin of the Keeper: "@PID" names the operator, "+GROUP" and "-GROUP"
// say which process groups run, "=HOOKS OPERATOR" sets the two deadlines in nanoseconds of
// machineClock. The end of stdin is the end of the operator.
//
// A nil Keeper guards nothing.
type Keeper struct {
	log *slog.Logger
	cmd *exec.Cmd

	// An order is one write, so that orders of several goroutines do not mix.
	orders io.WriteCloser
	gone   atomic.Bool // the process has ended, or the Keeper was closed
}

// StartKeeper starts a program that calls Keep with its stdin. It ends when this process does. The
// process keeps the file open, unless that is nil: a lock on it lasts until the Keeper has killed
// everything it must. Its environment is env, NAME=VALUE, and nothing else.
func StartKeeper(log *slog.Logger, open *os.File, env []string, program string, args ...string) (*Keeper, error) {
	cmd := exec.Command(program, args...)
	if open != nil {
		cmd.ExtraFiles = []*os.File{open}
	}
	cmd.Env = append([]string{}, env...) // never nil, which means ours: it could be read as long as the Keeper runs
	cmd.Stderr = os.Stderr               // where the operator writes its log
	// A signal to the operator's group, as a terminal sends it, is not for the keeper.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	orders, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start the process that guards hooks: %w", err)
	}
	k := &Keeper{log: log, cmd: cmd, orders: orders}
	k.send("@%d\n", os.Getpid())
	go func() {
		_ = cmd.Wait() // send notices
	}()
	return k, nil
}

// Until reports that this process is alive. If no later report arrives, the Keeper must kill all
// hooks at the first of the two times, and this process at the second.
func (k *Keeper) Until(hooks, operator time.Time) {
	now := machineClock() // first: a process that is stopped here sends a time too early, not too late
	k.send("=%d %d\n", int64(now+remaining(hooks)), int64(now+remaining(operator)))
}

// remaining is the time until t by the clock with less time left: that of the process may stand
// still while the machine is suspended, and the wall clock may be set.
func remaining(t time.Time) time.Duration {
	return min(time.Until(t), t.Round(0).Sub(time.Now().Round(0)))
}

// Close ends the Keeper, which kills what still runs.
func (k *Keeper) Close() {
	if k != nil && !k.gone.Swap(true) {
		_ = k.orders.Close() // the process may be gone already
	}
}

func (k *Keeper) guard(g group)   { k.send("+%d\n", int(g)) }
func (k *Keeper) release(g group) { k.send("-%d\n", int(g)) }

// send writes one order. A failure is logged once, and the operator continues without a Keeper.
func (k *Keeper) send(format string, numbers ...any) {
	if k == nil || k.gone.Load() {
		return
	}
	if _, err := fmt.Fprintf(k.orders, format, numbers...); err != nil && !k.gone.Swap(true) {
		k.log.Error("the process that guards hooks has ended; hooks may outlive the operator until it is restarted", "err", err)
		_ = k.orders.Close()
	}
}

// glance is how often the Keeper looks at the clock: its timers may stand still while the machine
// is suspended.
const glance = 250 * time.Millisecond

// Keep is the main function of the process behind a Keeper. parent was its parent when it began; 0
// for none. The children of the parent are left alone unless the orders name it as the operator: if
// the operator was killed before its Keeper began, the parent is process 1 or another one. Keep
// returns when orders ends, which is the end of the operator, and has then killed all process
// groups that were not released.
func Keep(log *slog.Logger, orders io.Reader, parent int) error {
	lines, failed := make(chan string), make(chan error, 1)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(orders)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
		failed <- scanner.Err()
	}()
	guarded := newWatchman(log, 0)
	guarded.parent = parent
	defer guarded.killGroups()
	for {
		select {
		case <-guarded.timer.C:
			guarded.look()
		case line, ok := <-lines:
			if !ok {
				return <-failed
			}
			if err := guarded.handle(line); err != nil {
				return err
			}
		}
	}
}

// watchman is the state of that process. Only the goroutine of Keep uses it.
type watchman struct {
	log      *slog.Logger
	parent   int // when this process began
	operator int // 0: not known, or gone before this process began
	groups   map[group]bool
	unnamed  []int // children of the operator while it is stopped
	timer    *time.Timer
	// When hooks, and when the operator must have ended, by machineClock. Without a deadline only
	// the end of the orders counts.
	hooksEnd, operatorEnd time.Duration
	late                  bool // hooksEnd has passed
}

func newWatchman(log *slog.Logger, operator int) *watchman {
	return &watchman{
		log: log, operator: operator, groups: map[group]bool{}, timer: time.NewTimer(math.MaxInt64),
		hooksEnd: math.MaxInt64, operatorEnd: math.MaxInt64,
	}
}

// handle carries out one order. An error ends the Keeper, which kills everything: an order that it cannot
// read may be the one that matters.
func (w *watchman) handle(line string) error {
	if line == "" {
		return errors.New("an empty order")
	}
	if line[0] == '=' {
		if n, err := fmt.Sscanf(line, "=%d %d", &w.hooksEnd, &w.operatorEnd); err != nil || n != 2 {
			return fmt.Errorf("order %q: these are not two times", line)
		}
		w.look()
		return nil
	}
	if line[0] == '@' {
		if operator, err := strconv.Atoi(line[1:]); err == nil && operator == w.parent {
			w.operator = operator
		}
		return nil
	}
	number, err := strconv.Atoi(line[1:])
	if err != nil || number <= 1 {
		return fmt.Errorf("order %q: there is no such process group", line)
	}
	switch line[0] {
	case '+':
		w.groups[group(number)] = true
		if w.late {
			w.killGroups()
		}
	case '-':
		delete(w.groups, group(number))
	default:
		return fmt.Errorf("order %q: unknown", line)
	}
	return nil
}

// look compares the clock with the deadlines, and sets the timer for the next one.
func (w *watchman) look() {
	now := machineClock()
	w.unnamed = nil // an operator that continues reports them, or ends them itself
	if w.operator != 0 && isStopped(w.operator) {
		w.unnamed = childrenOf(w.operator)
	}
	w.late = now >= w.hooksEnd
	if w.late {
		w.killGroups()
		w.killChildren()
	}
	if now >= w.operatorEnd {
		w.killOperator()
	}
	wait := glance
	for _, end := range []time.Duration{w.hooksEnd, w.operatorEnd} {
		if now < end {
			wait = min(wait, end-now)
		}
	}
	w.timer.Reset(wait)
}

func (w *watchman) killGroups() {
	for g := range w.groups {
		g.signal(syscall.SIGKILL)
	}
	killAll(w.unnamed)
}

// killChildren kills what the operator has started and not reported.
func (w *watchman) killChildren() {
	if w.operator != 0 {
		killAll(childrenOf(w.operator))
	}
}

// killAll kills processes and their groups, except this process.
func killAll(pids []int) {
	for _, child := range pids {
		if child > 1 && child != os.Getpid() {
			group(child).signal(syscall.SIGKILL)
			_ = syscall.Kill(child, syscall.SIGKILL) // no group of its own yet; or it is gone
		}
	}
}

// killOperator kills the operator while it is the parent of this process: otherwise it has ended,
// and its number may belong to another process.
func (w *watchman) killOperator() {
	if w.operator <= 1 || os.Getppid() != w.operator {
		return // process 1 of a container cannot be killed from inside
	}
	w.log.Error("the operator is killed: it did not report before its lease expired, and another replica may lead now", "pid", w.operator)
	_ = syscall.Kill(w.operator, syscall.SIGKILL) // it may have ended at this moment
}
