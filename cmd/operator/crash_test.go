package operator

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/hooks"
	"addon-operator/supervisor"
)

// crashVariable makes TestCrashKillsHooks the program that crashes: its value is a directory for the hook.
const crashVariable = "ADDON_OPERATOR_TEST_CRASH"

// Design 2, L5: a crash ends the process with its own exit code, after its hooks.
func TestCrashKillsHooks(t *testing.T) {
	if dir := os.Getenv(crashVariable); dir != "" {
		crashWithAHook(t, dir)
	}
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCrashKillsHooks$")
	cmd.Env = append(os.Environ(), crashVariable+"="+dir)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != int(crashed) {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, part := range []string{"level=ERROR", "actor crashed: the process ends", "actor=clumsy", "a bug", "goroutine"} {
		if !strings.Contains(string(out), part) {
			t.Errorf("the log does not have %q:\n%s", part, out)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	late := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for alive(pid) {
		select {
		case <-tick.C:
		case <-late:
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the hook has outlived the process")
		}
	}
}

// A hook whose start hangs, as on a file system that does not answer, does not keep a crashed process alive.
func TestCrashDespiteAStartThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := make(chan struct{})
		runner, err := hooks.NewRunner(hooks.Options{TmpDir: t.TempDir(), Log: slog.New(slog.DiscardHandler), May: func() error {
			<-hangs
			return errors.New("not any more")
		}})
		must(t, err)
		go func() {
			_, err := runner.Enabled(t.Context(), hooks.EnabledScript{Module: "m", Path: "/bin/true"})
			t.Logf("the script ended with %v", err)
		}()
		synctest.Wait()
		exited := make(chan int, 2)
		go (&replica{runner: runner}).crashed(func(code int) { exited <- code })
		if code := <-exited; code != int(crashed) {
			t.Errorf("exit code %d", code)
		}
		close(hangs)
	})
}

// alive reports whether there is a process that is not only waiting to be reaped.
func alive(pid int) bool {
	state, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err == nil {
		return !strings.Contains(string(state), ") Z ")
	}
	return syscall.Kill(pid, 0) == nil
}

// crashWithAHook lets an actor crash while a hook runs.
func crashWithAHook(t *testing.T, dir string) {
	script := filepath.Join(dir, "enabled")
	must(t, os.WriteFile(script, []byte("#!/bin/sh\nsleep 600 &\necho $! > "+dir+"/new && mv "+dir+"/new "+dir+"/pid\nwait\n"), 0o755))
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	runner, err := hooks.NewRunner(hooks.Options{TmpDir: filepath.Join(dir, "tmp"), Log: log})
	must(t, err)
	r := &replica{runner: runner, log: log}
	system := supervisor.NewSystem(supervisor.Options{Log: log, Crashed: func() { r.crashed(os.Exit) }})
	pid, err := system.Spawn("clumsy", func() actor.Actor {
		return actor.ReceiveFunc(func(ctx actor.Context) {
			if _, ok := ctx.Message().(string); ok {
				panic("a bug")
			}
		})
	})
	must(t, err)
	go func() {
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for range tick.C {
			if _, err := os.Stat(filepath.Join(dir, "pid")); err == nil {
				system.Send(pid, "crash")
				return
			}
		}
	}()
	_, err = runner.Enabled(t.Context(), hooks.EnabledScript{Module: "m", Path: script})
	t.Logf("the script ended with %v", err)
	select {}
}
