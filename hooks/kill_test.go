package hooks

import (
	"errors"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"
)

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
