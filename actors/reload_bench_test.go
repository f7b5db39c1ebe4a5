package actors_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"addon-operator/actors"
	"addon-operator/messages/view"
)

// BenchmarkReload measures what the runtime adds between two steps: all modules run again,
// and what they run takes no time, neither hooks nor Helm. A step is one run of a hook or of
// Helm; discovery, the steps, tasks, queues and values are in it. In turns with it, the
// bare start of a bash script, which is the least that a step of a real module costs. The
// target is less than 1000 us/step.
func BenchmarkReload(b *testing.B) {
	const modules, stepsEach = 40, 5 // two hooks before Helm, Helm, two after it
	operator, cluster := manyModules(b, modules, 2)
	script := filepath.Join(b.TempDir(), "hook.sh")
	writeFiles(b, map[string]string{script: "#!/usr/bin/env bash\n"})
	var reloads, starts time.Duration
	n := 0
	for b.Loop() {
		n++
		reloads += reload(b, operator, func() {
			if err := cluster.ConfigMap.Set(map[string]string{"global": fmt.Sprint("turn: ", n)}); err != nil {
				b.Fatal(err)
			}
		})
		began := time.Now()
		if err := exec.Command(script).Run(); err != nil {
			b.Fatal(err)
		}
		starts += time.Since(began)
	}
	step := reloads / time.Duration(n*modules*stepsEach)
	b.ReportMetric(float64(step.Nanoseconds())/1000, "us/step")
	b.ReportMetric(float64(step)/float64(starts/time.Duration(n)), "step/exec")
}

// reload is how long the reload takes that an edit leads to.
func reload(b *testing.B, operator *actors.Operator, edit func()) time.Duration {
	b.Helper()
	before := operator.Converge().Reload
	began := time.Now()
	edit()
	for {
		if c := operator.Converge(); c.Reload > before && c.Phase == view.ConvergeIdle {
			return time.Since(began)
		}
		if time.Since(began) > time.Minute {
			b.Fatalf("the reload does not end: %+v", operator.Converge())
		}
		runtime.Gosched()
	}
}
