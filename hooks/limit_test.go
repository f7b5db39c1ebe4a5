package hooks

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Long enough that a machine which is busy with other things starts bash within it.
const shortLimit = 2 * time.Second

func withTimeout(hook Hook, limit time.Duration) Hook {
	hook.Config = &Config{Settings: Settings{Timeout: limit}}
	return hook
}

func TestRunThatTakesTooLong(t *testing.T) { // C29, issue: TERM to the group, KILL after the grace period, the run failed
	tests := map[string]struct {
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
	}
	for situation, test := range tests {
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
	tests := map[string]struct{ script, want string }{
		"a hook that fails":         {`echo '{}' > $KUBERNETES_PATCH_PATH; exit 1`, "{}\n"},
		"a hook that is ended":      {`echo '{}' > $KUBERNETES_PATCH_PATH; exec sleep 1000`, "{}\n"},
		"a file that is gone":       {`rm $KUBERNETES_PATCH_PATH; exit 1`, ""},
		"a result that is not read": {`echo '{}' > $KUBERNETES_PATCH_PATH; echo x > $METRICS_PATH`, ""},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			result, err := runner.Run(t.Context(), Run{Hook: withTimeout(script(t, test.script), shortLimit)})
			if err == nil || string(result.ObjectPatches) != test.want {
				t.Errorf("patches %q, error %v", result.ObjectPatches, err)
			}
		})
	}
}
