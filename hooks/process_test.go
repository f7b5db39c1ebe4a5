package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestRunThatCannotStart(t *testing.T) {
	for situation, test := range map[string]struct{ content, want string }{
		"no interpreter line":              {"echo hello\n", "begin it with a line such as #!/usr/bin/env bash"},
		"an interpreter that is not there": {"#!/no/such/interpreter\n", "the interpreter /no/such/interpreter does not exist here"},
		"a line that ends with CR":         {"#!/bin/bash\r\nexit 0\r\n", "it ends with a carriage return"},
	} {
		t.Run(situation, func(t *testing.T) {
			runner, _ := newRunner(t, Options{})
			hook := script(t, "")
			must(t, os.WriteFile(hook.Path, []byte(test.content), 0o755))
			if _, err := runner.Run(t.Context(), Run{Hook: hook}); err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), hook.Name) {
				t.Errorf("error %v, want one that says %q", err, test.want)
			}
		})
	}
}

func TestRunWaitsForABusyScript(t *testing.T) {
	runner, _ := newRunner(t, Options{})
	hook := script(t, `:`)
	writer, err := os.OpenFile(hook.Path, os.O_WRONLY, 0)
	must(t, err)
	defer writer.Close()
	if _, err := runner.Run(t.Context(), Run{Hook: hook}); !errors.Is(err, syscall.ETXTBSY) {
		t.Errorf("error %v", err)
	}
	time.AfterFunc(time.Millisecond, func() { writer.Close() })
	if _, err := runner.Run(t.Context(), Run{Hook: hook}); err != nil {
		t.Error(err)
	}
}

func TestRunIsCancelled(t *testing.T) { // design: TERM to the group, KILL after the grace period
	for situation, test := range map[string]struct {
		script string
		grace  time.Duration
		trace  string
	}{
		"by TERM to the whole group": {
			`(trap 'echo child >> trace; exit' TERM; touch child-ready; while :; do sleep 0.01; done) & child=$!
trap 'wait $child; echo hook >> trace; exit 0' TERM
until [[ -e child-ready ]]; do sleep 0.01; done; touch ready; while :; do sleep 0.01; done`, time.Hour, "child\nhook\n"},
		"by KILL when it ignores TERM": {`trap '' TERM; touch ready; while :; do sleep 0.01; done`, 50 * time.Millisecond, ""},
	} {
		t.Run(situation, func(t *testing.T) {
			runner, _ := newRunner(t, Options{Grace: test.grace})
			hook := script(t, test.script)
			dir := filepath.Dir(hook.Path)
			ctx, cancel := context.WithCancelCause(t.Context())
			reason := errors.New("module is disabled")
			done := make(chan error)
			go func() {
				_, err := runner.Run(ctx, Run{Hook: hook})
				done <- err
			}()
			until(t, "the hook is ready", func() bool { return exists(filepath.Join(dir, "ready")) })
			cancel(reason)
			err := <-done
			if !errors.Is(err, context.Canceled) || !errors.Is(err, reason) || !strings.Contains(err.Error(), hook.Name) {
				t.Errorf("error %v", err)
			}
			if trace, _ := os.ReadFile(filepath.Join(dir, "trace")); string(trace) != test.trace {
				t.Errorf("trace %q, want %q", trace, test.trace)
			}
		})
	}
	t.Run("before it starts", func(t *testing.T) {
		runner, _ := newRunner(t, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		hook := script(t, `touch started`)
		if _, err := runner.Run(ctx, Run{Hook: hook}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		if exists(filepath.Join(filepath.Dir(hook.Path), "started")) {
			t.Error("the hook was started")
		}
	})
}

func TestRunEndsTheGroup(t *testing.T) { // C29
	runner, _ := newRunner(t, Options{})
	hook := script(t, `echo $$ > group; sleep 1000 & sleep 1000 & echo done`)
	must(t, second(runner.Run(t.Context(), Run{Hook: hook})))
	text, err := os.ReadFile(filepath.Join(filepath.Dir(hook.Path), "group"))
	must(t, err)
	// Killed children stay in the group until somebody reaps them, which is the work of process 1; so only processes that
	// run count.
	until(t, "the children are gone", func() bool { return len(alive(t, strings.TrimSpace(string(text)))) == 0 })
}

// alive lists the processes of a group that are no zombies.
func alive(t *testing.T, group string) []string {
	t.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	must(t, err)
	var found []string
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		// pid (command) state ppid pgrp …; the command may hold blanks.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) > 2 && fields[2] == group && fields[0] != "Z" {
			found = append(found, path)
		}
	}
	return found
}

func TestRunDoesNotHangOnADaemon(t *testing.T) {
	runner, log := newRunner(t, Options{})
	hook := script(t, `setsid bash -c 'echo $$ > daemon; exec sleep 1000' & until [[ -s daemon ]]; do sleep 0.01; done; echo done`)
	t.Cleanup(func() {
		text, _ := os.ReadFile(filepath.Join(filepath.Dir(hook.Path), "daemon"))
		var pid int
		if err := json.Unmarshal(text, &pid); err != nil || syscall.Kill(pid, syscall.SIGKILL) != nil {
			t.Errorf("daemon %s: %v", text, err)
		}
	})
	must(t, second(runner.Run(t.Context(), Run{Hook: hook})))
	if got := log.messages(t); len(got) != 2 || got[0] != "done" || !strings.Contains(got[1], "kept its output open") {
		t.Errorf("log %q", got)
	}
}

func TestRunInsideABubble(t *testing.T) { // design 8.2: real scripts on virtual time
	synctest.Test(t, func(t *testing.T) {
		runner, log := newRunner(t, Options{})
		hook := script(t, `echo '{"name": "n", "set": 5}' > $METRICS_PATH; echo hello; sleep 0.05`)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		started := time.Now()
		result, err := runner.Run(ctx, Run{Hook: hook})
		if err != nil || len(result.Metrics) != 1 {
			t.Errorf("got %+v, %v", result, err)
		}
		if spent := time.Since(started); spent != 0 {
			t.Errorf("virtual time went on by %s while the process ran", spent)
		}
		if got := log.messages(t); !slices.Equal(got, []string{"hello"}) {
			t.Errorf("log %q", got)
		}
		time.Sleep(time.Minute)
		if _, err := runner.Run(ctx, Run{Hook: script(t, `exit 3`)}); err == nil {
			t.Error("the failing hook did not fail")
		}
		cancel()
		synctest.Wait()
		if _, err := runner.Run(ctx, Run{Hook: hook}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

func TestRunIsCancelledInsideABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runner, _ := newRunner(t, Options{})
		hook := script(t, `touch ready; exec sleep 1000`)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for !exists(filepath.Join(filepath.Dir(hook.Path), "ready")) {
			}
			cancel()
		}()
		if _, err := runner.Run(ctx, Run{Hook: hook}); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
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

// L5: whatever begins while all are killed is killed, too, or does not begin. A process that is left lets the test
// hang.
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

// Long enough that a machine which is busy with other things starts bash within it.
const shortLimit = 2 * time.Second

func withTimeout(hook Hook, limit time.Duration) Hook {
	hook.Config = &Config{Settings: Settings{Timeout: limit}}
	return hook
}

func TestRunThatTakesTooLong(t *testing.T) { // C29, issue: TERM to the group, KILL after the grace period, the run failed
	for situation, test := range map[string]struct {
		option, setting time.Duration
		script, text    string
	}{
		"limit of the operator": {shortLimit, 0, `echo waiting >&2; exec sleep 1000`,
			"ended because it took longer than 2s (ADDON_OPERATOR_HOOK_TIMEOUT): waiting"},
		"limit of the hook wins": {time.Hour, shortLimit, `exec sleep 1000`,
			"ended because it took longer than 2s (settings.timeout of the hook), nothing on stderr"},
		"a hook that ignores TERM is killed": {0, shortLimit, `trap '' TERM; sleep 1000; sleep 1000`,
			"ended because it took longer than 2s"},
		"a hook that answers TERM by success has failed all the same": {0, shortLimit, `trap 'exit 0' TERM; sleep 1000 & wait`,
			"ended because it took longer than 2s"},
		"children in the group end, too": {0, shortLimit, `sleep 1000 & sleep 1000`,
			"ended because it took longer than 2s"},
	} {
		t.Run(situation, func(t *testing.T) {
			t.Parallel()
			runner, _ := newRunner(t, Options{Timeout: test.option, Grace: 100 * time.Millisecond})
			hook := script(t, `echo '{"name": "n", "set": 5}' > $METRICS_PATH; echo $$ > group; `+test.script)
			result, err := runner.Run(t.Context(), Run{Hook: withTimeout(hook, test.setting)})
			var timeout *TimeoutError
			if !errors.As(err, &timeout) || !strings.HasPrefix(err.Error(), "hook 001-m/hooks/hook.sh: "+test.text) {
				t.Fatalf("error %v, want one that says %q", err, test.text)
			}
			if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
				t.Error("a run that failed passes for one that was cancelled")
			}
			if result.Metrics != nil || result.Usage.Wall < shortLimit/2 { // the limit counts from a little earlier
				t.Errorf("got %+v", result)
			}
			group, err := os.ReadFile(filepath.Join(filepath.Dir(hook.Path), "group"))
			must(t, err)
			until(t, "the group is gone", func() bool { return len(alive(t, strings.TrimSpace(string(group)))) == 0 })
		})
	}
}

func TestRunWithinItsLimit(t *testing.T) {
	runner, _ := newRunner(t, Options{Timeout: time.Hour})
	if _, err := runner.Run(t.Context(), Run{Hook: withTimeout(script(t, `:`), time.Minute)}); err != nil {
		t.Error(err)
	}
	var exit *ExitError
	if _, err := runner.Run(t.Context(), Run{Hook: script(t, `exit 3`)}); !errors.As(err, &exit) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := runner.Run(ctx, Run{Hook: script(t, `:`)}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled run: %v", err)
	}
}

// A hook has ended when its process has: what a daemon of its keeps open is drained for two seconds, which do not
// count.
func TestDrainedOutputDoesNotCount(t *testing.T) { // C29
	runner, _ := newRunner(t, Options{})
	hook := withTimeout(script(t, `rm -f daemon; setsid bash -c ': > daemon; exec sleep 10' & until [[ -e daemon ]]; do sleep 0.01; done; echo '{"name": "n", "action": "set", "value": 5}' > $METRICS_PATH`), drainTime-100*time.Millisecond)
	var result Result
	err := errors.New("never ran")
	for range 5 { // a machine may be so busy that the hook itself does not end in time
		if result, err = runner.Run(t.Context(), Run{Hook: hook}); err == nil {
			break
		}
	}
	if err != nil || len(result.Metrics) != 1 || result.Usage.Wall < drainTime {
		t.Errorf("got %+v, %v", result, err)
	}
}

func TestEnabledScriptThatTakesTooLong(t *testing.T) {
	t.Parallel()
	runner, _ := newRunner(t, Options{Timeout: shortLimit})
	_, err := runner.Enabled(t.Context(), EnabledScript{Module: "m", Path: script(t, `exec sleep 1000`).Path})
	wantError(t, err, "hook m/enabled: ended because it took longer than 2s (ADDON_OPERATOR_HOOK_TIMEOUT)")
}

func TestRunThatFailsKeepsItsObjectPatches(t *testing.T) { // K9
	t.Parallel()
	runner, _ := newRunner(t, Options{})
	for situation, test := range map[string]struct{ script, want string }{
		"a hook that fails":         {`echo '{}' > $KUBERNETES_PATCH_PATH; exit 1`, "{}\n"},
		"a hook that is ended":      {`echo '{}' > $KUBERNETES_PATCH_PATH; exec sleep 1000`, "{}\n"},
		"a file that is gone":       {`rm $KUBERNETES_PATCH_PATH; exit 1`, ""},
		"a result that is not read": {`echo '{}' > $KUBERNETES_PATCH_PATH; echo x > $METRICS_PATH`, ""},
	} {
		t.Run(situation, func(t *testing.T) {
			result, err := runner.Run(t.Context(), Run{Hook: withTimeout(script(t, test.script), shortLimit)})
			if err == nil || string(result.ObjectPatches) != test.want {
				t.Errorf("patches %q, error %v", result.ObjectPatches, err)
			}
		})
	}
}
