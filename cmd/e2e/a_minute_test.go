package e2e

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Tests run about in the order of the names of their files. Those that take longest are in this
// file, so that they do not begin when all others are done: one that takes more than a minute, and charts.
// Subtests that are parallel wait once more, until all tests have begun.

// A hook that hangs: from the first minute on it is reported everywhere, its time limit ends it with all that it has started,
// and when memory runs out the kernel takes it before the operator. It inherits nothing that is only for the operator.
// C23, C29.
func TestHookThatHangs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a minute")
	}
	h := newHouse(t, `
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
bash -c 'cat /proc/$$/oom_score_adj' > "$OUT/score"
sleep 1000 "$@" & echo $! > "$OUT/child"
wait
`)
	o := h.start("OTEL_EXPORTER_OTLP_HEADERS=authorization=secret", "OF_THE_OPERATOR=1", "GOMEMLIMIT=400MiB")
	h.eventually("the child of the hook", func() error {
		if h.read("out/child") == "" {
			return errNotYet
		}
		return nil
	})
	if got := strings.TrimSpace(h.read("out/score")); got != "1000" {
		t.Errorf("the oom_score_adj of what the hook starts is %s, want 1000", got)
	}
	if seen := h.read("out/environment"); strings.Contains(seen, "authorization") || !strings.Contains(seen, "OF_THE_OPERATOR=1") || !strings.Contains(seen, "VALUES_PATH=") {
		t.Errorf("the environment of the hook:\n%s", seen)
	}
	if out := o.ask("module list"); strings.Contains(out, "hangs") {
		t.Errorf("it hangs from the beginning:\n%s", out)
	}
	// The log says when: asking for all metrics for a minute keeps the operator busy.
	awaitOr(h, 2*patience, func() bool { return o.count("WARN hook hangs") > 0 })
	hangs := o.metricNow("addon_operator_hook_hanging_seconds", `hook="010-stuck/hooks/hang.sh"`, `module="stuck"`, `binding="onStartup"`)
	if hangs == "" {
		t.Error("no metric says that the hook hangs")
	}
	o.expect("WARN hook hangs", "hook=010-stuck/hooks/hang.sh", "module=stuck", "runningFor=1m0s", "limit=1m15s")
	const told = "hook 010-stuck/hooks/hang.sh (onStartup) hangs: it has been running for 1m"
	o.ask("module list", "PROBLEM", told)
	o.ask("hook list", "PROBLEM", told)
	for page, told := range map[string]string{"/": "010-stuck/hooks/hang.sh hangs: it has been running for <time ", "/readyz?verbose": told} {
		if _, body := get(o.public + page); !strings.Contains(body, told) {
			t.Errorf("%s does not tell it:\n%s", page, body)
		}
	}
	o.expect("ERROR", "will retry", "hook 010-stuck/hooks/hang.sh: ended because it took longer than 1m15s (settings.timeout of the hook)")
	o.ready()
	h.eventually("the end of the child", func() error {
		if _, err := os.Stat("/proc/" + strings.TrimSpace(h.read("out/child"))); err == nil {
			return fmt.Errorf("it runs")
		}
		return nil
	})
	if o.metricNow("addon_operator_hook_hanging_seconds") != "" {
		t.Error("the metric stays though nothing hangs")
	}
	if got := o.metricNow("go_gc_gomemlimit_bytes"); !strings.HasSuffix(got, " 4.194304e+08") {
		t.Errorf("GOMEMLIMIT does not count: %q", got)
	}
}

// Charts of others live as modules as they do with Helm, in one operator: each is installed, and its manifest
// is that of Helm; a restart makes no revision; an edit makes one; a deleted object comes back; a module that is
// switched off leaves what Helm leaves, and can be switched on again. The charts of testdata/charts and of
// helm/testdata/foreign are ours, and have the constructs that public charts use.
func TestForeignCharts(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("needs an API server")
	}
	dir := os.Getenv(chartsVariable)
	var all []*foreignChart
	if dir != "" {
		all = foreignCharts(t, dir)
	} else {
		all = ownCharts(t)
	}
	inOrder(all)
	t.Run("groups", func(t *testing.T) {
		groups := withoutConflicts(all)
		for i, group := range groups {
			t.Run(strconv.Itoa(i+1), func(t *testing.T) {
				if len(groups) > 1 { // one would only wait for its turn again, after all other tests
					t.Parallel()
				}
				playCharts(t, group)
			})
		}
	})
	for _, c := range all {
		t.Log(c.name, c.version, "edited:", c.edited, "notes:", strings.Join(c.notes, "; "))
		for _, problem := range c.problems {
			t.Errorf("%s %s: %s", c.name, c.version, problem)
		}
		if c.refused != "" && dir == "" {
			t.Errorf("%s: Helm refuses it: %s", c.name, c.refused)
		}
		if c.edit == nil && c.refused == "" && dir == "" {
			t.Errorf("%s: no value to edit was found", c.name)
		}
	}
	if dir != "" {
		writeTable(t, all)
	}
}
