package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The memory limit of the container counts for the runtime: it collects garbage before the kernel kills the process.
// C29.
func TestMemoryLimitOfTheContainer(t *testing.T) {
	const mounts = "mount -t tmpfs none /sys/fs/cgroup"
	if out, err := exec.Command("unshare", "-rm", "sh", "-c", mounts).CombinedOutput(); err != nil {
		t.Skipf("control groups cannot be replaced for a process: %v: %s", err, out)
	}
	h := newFixture(t, "-- modules/values.yaml --\n")
	// Both versions of control groups, as a container with a limit of 400 MiB has them.
	h.within = []string{"unshare", "-rm", "sh", "-c", mounts + ` && mkdir /sys/fs/cgroup/memory &&
		echo 419430400 > /sys/fs/cgroup/memory.max && echo 419430400 > /sys/fs/cgroup/memory/memory.limit_in_bytes && exec "$0"`}
	if got := h.start().ready().metric("go_gc_gomemlimit_bytes"); got != "3.7748736e+08" {
		t.Errorf("90 %% of 400 MiB do not count: %q", got)
	}
}

// A hook that reports a series more for each object takes neither the memory of the operator nor that of Prometheus:
// new series beyond the limit are dropped, and that is logged; those of others stay. I6, I7.
func TestSeriesOfAHookAreLimited(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
manyEnabled: true
-- modules/010-many/hooks/many.sh --
#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then echo '{"configVersion": "v1", "onStartup": 1}'; exit; fi
for i in {1..1045}; do echo '{"name": "many", "set": 1, "labels": {"object": "'$i'"}}'; done > "$METRICS_PATH"
-- modules/010-many/hooks/one.sh --
#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then echo '{"configVersion": "v1", "onStartup": 2}'; exit; fi
echo '{"name": "one", "set": 1}' > "$METRICS_PATH"
`)
	o := h.start().ready()
	o.expect("WARN", "metrics of a hook are dropped", "hook=010-many/hooks/many.sh", "dropped=45", "most=1000")
	_, page := get(o.public + "/metrics/hooks")
	if many, one := strings.Count(page, "\nmany{"), strings.Count(page, "\none{"); many != 1000 || one != 1 {
		t.Errorf("there are %d series of one hook and %d of the other, want 1000 and 1", many, one)
	}
	if got := o.metric("addon_operator_hook_metrics_dropped_total", "many.sh"); got != "45" {
		t.Errorf("%q dropped ones are counted", got)
	}
}

// What lies where others could replace it, or would be shown to others, is refused at the start, by the name of the
// option. B3, J7, C24.
func TestOptionsThatExposeSecrets(t *testing.T) {
	h := newFixture(t, "-- modules/values.yaml --\n")
	h.mkdir("open")
	must(t, os.Chmod(h.path("open"), 0o777))
	for env, says := range map[string]string{
		"DEBUG_HTTP_SERVER_ADDR=0.0.0.0:0":         "DEBUG_HTTP_SERVER_ADDR_NOT_LOOPBACK=true",
		"ADDON_OPERATOR_TMP_DIR=" + h.path("open"): "others may write to it (mode 0777)",
		"ADDON_OPERATOR_HOOK_ENV=PATH":             "OTEL_EXPORTER_OTLP_*HEADERS",
	} {
		o := h.start(env)
		if code := o.exit(); code != 1 {
			t.Errorf("%s: exit code %d, want 1", env, code)
		}
		expectAll(t, strings.Join(o.output.lines(), "\n"), says)
	}
	h.start("DEBUG_HTTP_SERVER_ADDR_NOT_LOOPBACK=true", "DEBUG_HTTP_SERVER_ADDR=0.0.0.0:0", "ADDON_OPERATOR_TMP_DIR="+h.path("open/own")).ready()
}
