package operator

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
	"addon-operator/cmd/remote"
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

func TestGoMemoryLimit(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no control groups":   {nil, 0},
		"version 2":           {map[string]string{"sys/fs/cgroup/memory.max": "536870912\n"}, 483183810},
		"version 2, no limit": {map[string]string{"sys/fs/cgroup/memory.max": "max\n"}, 0},
		"version 1":           {map[string]string{"sys/fs/cgroup/memory/memory.limit_in_bytes": "1000000\n"}, 900000},
		"version 1, no limit": {map[string]string{"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 0},
		"nonsense":            {map[string]string{"sys/fs/cgroup/memory.max": "-5"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			for path, text := range test.files {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			if got := goMemoryLimit(root); got != test.want {
				t.Errorf("got %d, want %d", got, test.want)
			}
		})
	}
}

// listening are options with addresses.
func listening(address string, port int) cli.Config {
	var c cli.Config
	c.ListenAddress, c.ListenPort = address, port
	return c
}

func TestAdvertisedAddress(t *testing.T) {
	for name, c := range map[string]struct {
		config cli.Config
		want   string
	}{
		"the one it listens on":       {listening("127.0.0.1", 2), "127.0.0.1:2"},
		"the one it listens on, IPv6": {listening("fd00::1", 1), "[fd00::1]:1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := advertised(&c.config); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	everywhere := listening("0.0.0.0", 3)
	got := advertised(&everywhere)
	if strings.HasPrefix(got, "0.0.0.0") || !strings.HasSuffix(got, ":3") {
		t.Errorf("everywhere became %q", got)
	}
}

// program has the commands that ask a running operator, and prints to out.
func program(out io.Writer) *cobra.Command {
	root, c := cli.Root("test", func(string) (string, bool) { return "", false })
	root.RunE = Start(c).RunE
	remote.DumpActors(c, root)
	root.AddCommand(append(remote.Pages(c), remote.Plan(c, Plan), remote.Raw(c))...)
	root.SetOut(out)
	root.SetErr(io.Discard)
	return root
}

// commanded runs a command line.
func commanded(args ...string) (output string, err error) {
	var out bytes.Buffer
	root := program(&out)
	root.SetArgs(args)
	err = root.Execute()
	return out.String(), err
}
