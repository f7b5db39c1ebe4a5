package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestRunThatCannotStart(t *testing.T) {
	tests := map[string]struct{ content, want string }{
		"no interpreter line":              {"echo hello\n", "begin it with a line such as #!/usr/bin/env bash"},
		"an interpreter that is not there": {"#!/no/such/interpreter\n", "the interpreter /no/such/interpreter does not exist here"},
		"a line that ends with CR":         {"#!/bin/bash\r\nexit 0\r\n", "it ends with a carriage return"},
	}
	for situation, test := range tests {
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
	tests := map[string]struct {
		script string
		grace  time.Duration
		trace  string
	}{
		"by TERM to the whole group": {
			`(trap 'echo child >> trace; exit' TERM; touch child-ready; while :; do sleep 0.01; done) & child=$!
trap 'wait $child; echo hook >> trace; exit 0' TERM
until [[ -e child-ready ]]; do sleep 0.01; done; touch ready; while :; do sleep 0.01; done`, time.Hour, "child\nhook\n"},
		"by KILL when it ignores TERM": {`trap '' TERM; touch ready; while :; do sleep 0.01; done`, 50 * time.Millisecond, ""},
	}
	for situation, test := range tests {
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
