package hooks

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// grandparent starts a script whose child sleeps in the background, in a group of its own, and returns the two.
func grandparent(t *testing.T) (cmd *exec.Cmd, child int) {
	t.Helper()
	cmd = exec.Command("sh", "-c", "sleep 600 >/dev/null & echo $!; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { group(cmd.Process.Pid).signal(syscall.SIGKILL); _ = cmd.Wait() })
	buffer := make([]byte, 32)
	n, err := stdout.Read(buffer)
	if err == nil {
		child, err = strconv.Atoi(strings.TrimSpace(string(buffer[:n])))
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd, child
}

// awaitGone waits until a process is gone, or is a zombie.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	until(t, "process "+strconv.Itoa(pid)+" is gone", func() bool {
		state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
		return err != nil || strings.HasPrefix(strings.TrimSpace(string(state)), "Z")
	})
}

// L5: when the operator dies, its hooks die, and what they have started.
func TestKeeperKillsWithTheOperator(t *testing.T) {
	hook, child := grandparent(t)
	released, spared := grandparent(t)
	orders, operator := io.Pipe()
	kept := make(chan error, 1)
	go func() { kept <- Keep(slog.New(slog.DiscardHandler), orders, 0) }()
	k := &Keeper{orders: operator}
	k.guard(group(hook.Process.Pid))
	k.guard(group(released.Process.Pid))
	k.release(group(released.Process.Pid))
	k.Close()
	if err := <-kept; err != nil {
		t.Error(err)
	}
	awaitGone(t, hook.Process.Pid)
	awaitGone(t, child)
	if err := syscall.Kill(spared, 0); err != nil {
		t.Errorf("a hook that was released before: %v", err)
	}
}

// L5: an operator that is stopped cannot kill its hooks, and gives no sign of life.
func TestKeeperKillsWhenTheOperatorIsSilent(t *testing.T) {
	hook, child := grandparent(t)
	orders, operator := io.Pipe()
	kept := make(chan error, 1)
	go func() { kept <- Keep(slog.New(slog.DiscardHandler), orders, 0) }()
	k := &Keeper{orders: operator}
	k.guard(group(hook.Process.Pid))
	k.Until(time.Now().Add(time.Hour), time.Now().Add(time.Hour))
	if err := syscall.Kill(child, 0); err != nil {
		t.Errorf("killed before its time: %v", err)
	}
	k.Until(time.Now().Add(10*time.Millisecond), time.Now().Add(time.Hour))
	awaitGone(t, hook.Process.Pid)
	awaitGone(t, child)
	late, _ := grandparent(t)
	k.guard(group(late.Process.Pid))
	awaitGone(t, late.Process.Pid)
	k.Until(time.Now().Add(time.Hour), time.Now().Add(time.Hour))
	k.Until(time.Now().Add(-time.Hour), time.Now().Add(time.Hour)) // it was stopped before it could send this
	stale, _ := grandparent(t)
	k.guard(group(stale.Process.Pid))
	awaitGone(t, stale.Process.Pid)
	k.Close()
	if err := <-kept; err != nil {
		t.Error(err)
	}
}

// The roles of this binary started again, most for TestStoppedOperatorIsKilled.
const (
	roleVariable = "KEEPER_TEST_ROLE"
	roleOperator = "operator"
	roleThreads  = "threads" // of TestPeakMemory: runs a command from another thread than the first
	roleKeeper   = "-keep-hooks"
)

// TestMain plays a role when it is asked to.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv(roleVariable) == roleOperator:
		if err := stopInTheMiddleOfAStart(); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case os.Getenv(roleVariable) == roleThreads:
		if err := runInAnotherThread(os.Args[1]); err != nil {
			_, _ = fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case len(os.Args) == 2 && os.Args[1] == roleKeeper: // a keeper has no environment
		if err := Keep(slog.New(slog.DiscardHandler), os.Stdin, os.Getppid()); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// stopInTheMiddleOfAStart is an operator that has started a hook and is stopped before it can tell its keeper so.
func stopInTheMiddleOfAStart() error {
	k, err := StartKeeper(slog.New(slog.DiscardHandler), nil, nil, os.Args[0], roleKeeper)
	if err != nil {
		return err
	}
	hook := exec.Command("sh", "-c", "trap '' TERM; sleep 600 & echo $$ $!; wait")
	hook.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := hook.StdoutPipe()
	if err == nil {
		err = hook.Start()
	}
	if err != nil {
		return err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n') // the hook lives, and its child
	if err == nil {
		_, err = os.Stdout.WriteString(line)
	}
	if err != nil {
		return err
	}
	k.Until(time.Now().Add(300*time.Millisecond), time.Now().Add(600*time.Millisecond))
	if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
		return err
	}
	// Another thread may be the one that takes the signal, a moment later; until then this one goes on.
	<-time.After(time.Minute)
	return errors.New("the operator was not killed")
}

// L5: an operator that is stopped in the middle of starting a hook has not told of it; it is killed all the same, with its
// child, and then the operator, which might go on with the next one when it is woken up.
func TestStoppedOperatorIsKilled(t *testing.T) {
	operator := exec.Command(os.Args[0])
	operator.Env = append(os.Environ(), roleVariable+"="+roleOperator)
	output, err := operator.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the operator: %v, want it killed\n%s", err, output)
	}
	var hook, child int
	if _, err := fmt.Sscan(string(output), &hook, &child); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	awaitGone(t, hook)
	awaitGone(t, child)
}

// L4: a lock on a file that a Keeper keeps open lasts until the Keeper has ended, also when no other process has the file open.
func TestKeeperKeepsALock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	k, err := StartKeeper(slog.New(slog.DiscardHandler), file, nil, os.Args[0], roleKeeper)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(syscall.Flock(int(file.Fd()), syscall.LOCK_EX), file.Close())
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := syscall.Flock(int(other.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Errorf("the lock is free: %v", err)
	}
	k.Close()
	for errors.Is(syscall.Flock(int(other.Fd()), syscall.LOCK_EX), syscall.EINTR) { // it waits for the end of the keeper
	}
}

// L5: an operator that was killed before its keeper began has left it to another process, such as process 1, whose children
// are no hooks.
func TestChildrenOfAnotherParentAreSpared(t *testing.T) {
	for operator, want := range map[int]int{os.Getppid(): 0, os.Getpid(): os.Getpid()} {
		w := newWatchman(slog.New(slog.DiscardHandler), 0)
		w.parent = os.Getpid()
		if err := w.handle(fmt.Sprintf("@%d", operator)); err != nil || w.operator != want {
			t.Errorf("the operator is %d, the parent %d: got %d and %v, want %d", operator, w.parent, w.operator, err, want)
		}
	}
}

// L5: an operator that is stopped in the middle of starting a hook may also be killed by others, long before its time is
// over: neither the hook stays, nor what that has started.
func TestHookOfAStoppedOperatorIsKilledWithIt(t *testing.T) {
	operator := exec.Command("bash", "-c", `set -m; sh -c 'sleep 600 >/dev/null & echo $$ $!; wait' & kill -STOP $$`)
	stdout, err := operator.StdoutPipe()
	if err == nil {
		err = operator.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	end := sync.OnceFunc(func() { _ = operator.Process.Kill(); _ = operator.Wait() })
	t.Cleanup(end)
	var hook, child int
	if _, err := fmt.Fscan(stdout, &hook, &child); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { group(hook).signal(syscall.SIGKILL) })
	until(t, "the operator is stopped", func() bool { return isStopped(operator.Process.Pid) })
	w := newWatchman(slog.New(slog.DiscardHandler), operator.Process.Pid)
	w.look()
	if err := syscall.Kill(child, 0); err != nil {
		t.Errorf("killed while the operator may go on: %v", err)
	}
	end()
	w.killGroups()
	awaitGone(t, hook)
	awaitGone(t, child)
}

// L5: whoever was stopped between its last look at the lease and the start of a hook kills that hook.
func TestHookStartedTooLateIsKilled(t *testing.T) {
	looks := 0
	runner, _ := newRunner(t, Options{May: func() error {
		if looks++; looks > 1 {
			return errors.New("the lease has run out")
		}
		return nil
	}})
	hook := script(t, `trap "" TERM; sleep 600`)
	var exit *ExitError
	if _, err := runner.Run(t.Context(), Run{Hook: hook}); !errors.As(err, &exit) {
		t.Errorf("the hook: %v, want it killed", err)
	}
}

func TestKeeperRefusesNonsense(t *testing.T) {
	for _, orders := range []string{"\n", "+x\n", "+0\n", "+1\n", "-1\n", "?5\n", "+\n", "=\n", "=5\n", "=x 5\n"} {
		if err := Keep(slog.New(slog.DiscardHandler), strings.NewReader(orders), 0); err == nil {
			t.Errorf("%q was obeyed", orders)
		}
	}
}

// FuzzKeep: whatever comes, nothing but process groups above 1 is ever named.
func FuzzKeep(f *testing.F) {
	for _, orders := range []string{"=100 200\n", "+0\n-0\n", "+-1\n", "=x"} {
		f.Add(orders)
	}
	f.Fuzz(func(t *testing.T, orders string) {
		w := newWatchman(slog.New(slog.DiscardHandler), 0)
		for line := range strings.Lines(orders) {
			_ = w.handle(strings.TrimSuffix(line, "\n")) // errors are the point of others
		}
		for g := range w.groups {
			if g <= 1 {
				t.Errorf("group %d", g)
			}
		}
	})
}

// L5: at the loss of the leadership everything that runs is killed at once, without TERM,
// and nothing is started any more, not even what had been on its way.
func TestRunnerKills(t *testing.T) {
	runner, _ := newRunner(t, Options{Grace: time.Hour})
	hook := script(t, `trap "" TERM; touch started; sleep 600`)
	ended := make(chan error, 1)
	go func() {
		_, err := runner.Run(t.Context(), Run{Hook: hook})
		ended <- err
	}()
	until(t, "the hook runs", func() bool { return exists(filepath.Join(filepath.Dir(hook.Path), "started")) })
	runner.Kill()
	var exit *ExitError
	if err := <-ended; !errors.As(err, &exit) {
		t.Errorf("the killed hook: %v", err)
	}
	if _, err := runner.Run(t.Context(), Run{Hook: hook}); !errors.Is(err, errKilled) {
		t.Errorf("a run afterwards: %v", err)
	}
}

// L2: a follower asks hooks for their configuration, but runs none.
func TestFollowerOnlyConfigures(t *testing.T) {
	refused := errors.New("it is a standby")
	runner, _ := newRunner(t, Options{May: func() error { return refused }})
	hook := script(t, `[ "$1" = --config ] && echo '{configVersion: v1, onStartup: 1}'`)
	if _, err := runner.Configure(t.Context(), hook.File, "", "module"); err != nil {
		t.Errorf("--config: %v", err)
	}
	if _, err := runner.Run(t.Context(), Run{Hook: hook}); !errors.Is(err, refused) {
		t.Errorf("a run: %v", err)
	}
	if _, err := runner.Enabled(t.Context(), EnabledScript{Module: "m", Path: hook.Path, Values: map[string]any{}}); !errors.Is(err, refused) {
		t.Errorf("an enabled script: %v", err)
	}
}

// L5: whatever begins while all are killed is killed, too, or does not begin. A process that is left lets the test hang.
func TestKillDuringStarts(t *testing.T) {
	g := &groups{}
	var all sync.WaitGroup
	tried := make(chan bool, 20)
	for range cap(tried) {
		all.Go(func() {
			cmd := exec.Command("sleep", "600")
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			process, err := g.start(cmd, false)
			tried <- err == nil
			if err == nil {
				err = awaitExit(int(process.group))
				g.remove(process)
				_ = cmd.Wait() // says that it was killed
			}
			if err != nil && !errors.Is(err, errKilled) {
				t.Error(err)
			}
		})
	}
	for range 5 {
		<-tried
	}
	g.kill()
	all.Wait()
	for range g.running.Range {
		t.Error("a process that has ended is kept")
	}
}

// L5: a panic at the start of a hook, which fails its task, does not keep the others from being killed.
func TestKillAfterAPanicOfAStart(t *testing.T) {
	g := &groups{may: func() error { panic("a bug") }}
	func() {
		defer func() { _ = recover() }() // as a run does
		_, err := g.start(exec.Command("true"), true)
		t.Errorf("started, %v", err)
	}()
	g.kill()
}
