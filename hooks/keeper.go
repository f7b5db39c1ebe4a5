package hooks

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Keeper is a small process beside the operator that kills its hooks, and all that they started in their process groups,
// when the operator cannot: when it was killed, or when it was stopped and the time is over for which it had said to be
// alive. With several replicas the next one takes over then, and the hooks of both would act side by side (L5).
//
// A nil Keeper guards nothing.
type Keeper struct {
	log *slog.Logger
	cmd *exec.Cmd

	mu     sync.Mutex
	orders io.WriteCloser // nil when the process is gone
}

// StartKeeper starts a program that calls Keep with its stdin. It ends when this process does.
func StartKeeper(log *slog.Logger, program string, args ...string) (*Keeper, error) {
	cmd := exec.Command(program, args...)
	cmd.Env = []string{} // it needs none, and it may be looked into for long
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
	go func() {
		_ = cmd.Wait() // send notices
	}()
	return k, nil
}

// Until says that this process lives, and that the Keeper must kill all hooks when it hears nothing more until then.
func (k *Keeper) Until(deadline time.Time) { k.send("=%d\n", time.Until(deadline).Milliseconds()) }

// Close ends the keeper; it kills what still runs.
func (k *Keeper) Close() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.orders != nil {
		_ = k.orders.Close() // the process may be gone already
		k.orders = nil
	}
}

func (k *Keeper) guard(g group)   { k.send("+%d\n", int(g)) }
func (k *Keeper) release(g group) { k.send("-%d\n", int(g)) }

func (k *Keeper) send(format string, number any) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.orders == nil {
		return
	}
	if _, err := fmt.Fprintf(k.orders, format, number); err != nil {
		k.log.Error("the process that guards hooks has gone; hooks of this operator may outlive it until it is started again", "err", err)
		_ = k.orders.Close()
		k.orders = nil
	}
}

// Keep is the duty of the process behind a Keeper. It returns when orders ends, which is the end of the operator, and has
// killed all process groups by then that were not released.
func Keep(orders io.Reader) error {
	lines, failed := make(chan string), make(chan error, 1)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(orders)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
		failed <- scanner.Err()
	}()
	guarded := watchman{groups: map[group]bool{}, timer: time.NewTimer(0)}
	defer guarded.killAll()
	<-guarded.timer.C // without a deadline only the end counts
	for {
		select {
		case <-guarded.timer.C:
			guarded.late = true
			guarded.killAll()
		case line, ok := <-lines:
			if !ok {
				return <-failed
			}
			if err := guarded.obey(line); err != nil {
				return err
			}
		}
	}
}

type watchman struct {
	groups map[group]bool
	timer  *time.Timer
	late   bool // the deadline has passed
}

func (w *watchman) obey(line string) error {
	if line == "" {
		return errors.New("an empty order")
	}
	number, err := strconv.Atoi(line[1:])
	if err != nil || line[0] != '=' && number <= 1 {
		return fmt.Errorf("order %q: there is no such process group", line)
	}
	switch line[0] {
	case '+':
		w.groups[group(number)] = true
		if w.late {
			w.killAll()
		}
	case '-':
		delete(w.groups, group(number))
	case '=':
		w.late = false
		w.timer.Reset(time.Duration(number) * time.Millisecond)
	default:
		return fmt.Errorf("order %q: unknown", line)
	}
	return nil
}

func (w *watchman) killAll() {
	for g := range w.groups {
		g.signal(syscall.SIGKILL)
	}
}
