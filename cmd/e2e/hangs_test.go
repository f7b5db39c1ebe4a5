package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"addon-operator/testkit/devclustertest"
)

// hangs starts an operator with a hook that runs until its time limit ends it, the first time.
func hangs(t *testing.T, limit string) (*fixture, *operator) {
	h := newFixture(t, strings.ReplaceAll(`
-- modules/values.yaml --
stuckEnabled: true
-- modules/010-stuck/hooks/hang.sh --
#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then
  echo '{"configVersion": "v1", "onStartup": 1, "settings": {"timeout": "LIMIT"}}'
  exit
fi
[[ ! -e $OUT/once ]] || exit 0
: > "$OUT/once"
env > "$OUT/environment"
until read -r score </proc/$$/oom_score_adj && [[ $score == 1000 ]]; do sleep 0.01; done # what it starts inherits it
sleep 1000 "$@" & echo $! > "$OUT/child"
wait
`, "LIMIT", limit))
	o := h.start("OTEL_EXPORTER_OTLP_HEADERS=authorization=secret", "OF_THE_OPERATOR=1", "GOMEMLIMIT=400MiB")
	h.until("the child of the hook", func() bool { return h.read("out/child") != "" })
	return h, o
}

// A hook whose time limit is over ends, with all that it has started, and is tried again; when memory runs out the
// kernel takes it before the operator. It inherits nothing that is only for the operator. C23, C29.
func TestHookEndsAtItsTimeLimit(t *testing.T) {
	h, o := hangs(t, "6s")
	child := "/proc/" + strings.TrimSpace(h.read("out/child"))
	h.eventually("the oom_score_adj of what the hook has started", func() error {
		got, err := os.ReadFile(child + "/oom_score_adj")
		if err != nil || strings.TrimSpace(string(got)) != "1000" {
			return fmt.Errorf("is %q, %w, want 1000", got, err)
		}
		return nil
	})
	if seen := h.read("out/environment"); strings.Contains(seen, "authorization") || !strings.Contains(seen, "OF_THE_OPERATOR=1") || !strings.Contains(seen, "VALUES_PATH=") {
		t.Errorf("the environment of the hook:\n%s", seen)
	}
	o.expect("ERROR", "will retry", "hook 010-stuck/hooks/hang.sh: ended because it took longer than 6s (settings.timeout of the hook)")
	o.ready()
	h.eventually("the end of the child", func() error {
		if _, err := os.Stat(child); err == nil {
			return fmt.Errorf("it runs")
		}
		return nil
	})
	if got := o.metric("go_gc_gomemlimit_bytes"); got != "4.194304e+08" {
		t.Errorf("GOMEMLIMIT does not count: %q", got)
	}
}

// A hook that hangs is reported everywhere, from the first minute on (C29). It lasts longer than that, so make
// test-full plays it; make test has hook_hangs.txtar of actors, in which the time is virtual.
func TestHookThatHangs(t *testing.T) {
	devclustertest.OnlyInFull(t)
	h, o := hangs(t, "75s")
	if out := o.ask("module list"); strings.Contains(out, "hangs") {
		t.Errorf("it hangs from the beginning:\n%s", out)
	}
	second := time.NewTicker(time.Second) // asking all the time for a minute would keep the operator busy
	defer second.Stop()
	h.until("the report", func() bool {
		<-second.C
		return strings.Contains(o.ask("module list"), "hangs")
	})
	hangs := o.metric("addon_operator_hook_hanging_seconds", `hook="010-stuck/hooks/hang.sh"`, `module="stuck"`, `binding="onStartup"`)
	if hangs == "" {
		t.Error("no metric says that the hook hangs")
	}
	const told = "hook 010-stuck/hooks/hang.sh hangs: it has been running since "
	o.ask("module list", "PROBLEM", told)
	const next = "resolve what the hook waits for, set a time limit (settings.timeout), or disable the module: addon-operator values set stuckEnabled false"
	o.ask("status", told, next)
	if page, err := o.livePage(); err != nil || !strings.Contains(regexp.MustCompile(`</?code[^>]*>`).ReplaceAllString(page, ""), next) {
		t.Errorf("%v; the page does not say what to do:\n%s", err, page)
	}
	for page, told := range map[string]string{"/": "010-stuck/hooks/hang.sh hangs: it has been running for <time ", "/readyz?verbose": told} {
		expectAll(t, o.body(page), told)
	}
	o.ready()
	if o.metric("addon_operator_hook_hanging_seconds") != "" {
		t.Error("the metric stays though nothing hangs")
	}
}
