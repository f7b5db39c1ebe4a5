package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// Parallel tests begin with the first one, and go on with the last, in the order of the names of their files. The
// only one that takes more than a minute is in this file, so that it does not begin when all others are done; others
// that take long are in z_long_test.go.

// A hook that hangs: from the first minute on it is reported everywhere, its time limit ends it with all that it has
// started, and when memory runs out the kernel takes it before the operator. It inherits nothing that is only for the
// operator. C23, C29.
func TestHookThatHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a minute")
	}
	h := newFixture(t, `
-- modules/values.yaml --
stuckEnabled: true
-- modules/010-stuck/hooks/hang.sh --
#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then
  echo '{"configVersion": "v1", "onStartup": 1, "settings": {"timeout": "75s"}}'
  exit
fi
[[ ! -e $OUT/once ]] || exit 0
: > "$OUT/once"
env > "$OUT/environment"
sleep 1000 "$@" & echo $! > "$OUT/child"
wait
`)
	o := h.start("OTEL_EXPORTER_OTLP_HEADERS=authorization=secret", "OF_THE_OPERATOR=1", "GOMEMLIMIT=400MiB")
	h.until("the child of the hook", func() bool { return h.read("out/child") != "" })
	h.eventually("the oom_score_adj of what the hook has started", func() error {
		got, err := os.ReadFile("/proc/" + strings.TrimSpace(h.read("out/child")) + "/oom_score_adj")
		if err != nil || strings.TrimSpace(string(got)) != "1000" {
			return fmt.Errorf("is %q, %w, want 1000", got, err)
		}
		return nil
	})
	if seen := h.read("out/environment"); strings.Contains(seen, "authorization") || !strings.Contains(seen, "OF_THE_OPERATOR=1") || !strings.Contains(seen, "VALUES_PATH=") {
		t.Errorf("the environment of the hook:\n%s", seen)
	}
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
	o.expect("ERROR", "will retry", "hook 010-stuck/hooks/hang.sh: ended because it took longer than 1m15s (settings.timeout of the hook)")
	o.ready()
	h.eventually("the end of the child", func() error {
		if _, err := os.Stat("/proc/" + strings.TrimSpace(h.read("out/child"))); err == nil {
			return fmt.Errorf("it runs")
		}
		return nil
	})
	if o.metric("addon_operator_hook_hanging_seconds") != "" {
		t.Error("the metric stays though nothing hangs")
	}
	if got := o.metric("go_gc_gomemlimit_bytes"); got != "4.194304e+08" {
		t.Errorf("GOMEMLIMIT does not count: %q", got)
	}
}
