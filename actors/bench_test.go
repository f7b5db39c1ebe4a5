package actors_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"addon-operator/actors"
	"addon-operator/actors/scenario"

	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/testkit"
	"addon-operator/testkit/devclustertest"
)

// stopwatch is a hook that reports when it was started.
const stopwatch = `#!/usr/bin/env bash
began=$EPOCHREALTIME
if [[ ${1:-} == --config ]]; then
  echo '{"configVersion": "v1", "kubernetes": [{"kind": "ConfigMap", "queue": "events", "executeHookOnSynchronization": false,
    "namespace": {"nameSelector": {"matchNames": ["%s"]}}, "labelSelector": {"matchLabels": {"app": "watched"}}, "jqFilter": ".data"}]}'
  exit
fi
echo "$began" > %s
`

// BenchmarkEventToHook measures the way of a change from a real API server to the first
// instruction of the hook. In turns with it, two things that cannot be avoided: a bare
// watch that sees the same change, and the bare start of the same script. added-p99-ms is
// what is left for the operator: watch, cache, filter, mailboxes, queue, files of the run.
func BenchmarkEventToHook(b *testing.B) {
	lab := newLatencyLab(b)
	var total, afterWatch, start []time.Duration
	for i := 0; b.Loop(); i++ {
		before := time.Now()
		lab.create(b, fmt.Sprintf("cm-%d", i))
		seen, ran := lab.seen(b), lab.started(b)
		total = append(total, ran.Sub(before))
		afterWatch = append(afterWatch, ran.Sub(seen))
		start = append(start, lab.bareStart(b))
	}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(ms(percentile(total, 50)), "p50-ms")
	b.ReportMetric(ms(percentile(total, 99)), "p99-ms")
	b.ReportMetric(ms(percentile(start, 50)), "exec-p50-ms")
	b.ReportMetric(ms(percentile(start, 99)), "exec-p99-ms")
	b.ReportMetric(ms(percentile(afterWatch, 50)-percentile(start, 50)), "added-p50-ms")
	b.ReportMetric(ms(percentile(afterWatch, 99)-percentile(start, 99)), "added-p99-ms")
}

func percentile(all []time.Duration, p int) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[(len(sorted)-1)*p/100]
}

// latencyLab is an operator on a real API server, a bare watch next to it, and a pipe into
// which hooks write their time.
type latencyLab struct {
	client    kubernetes.Interface
	namespace string
	script    string
	watch     watch.Interface
	arrivals  chan time.Time
	times     *bufio.Scanner
}

func newLatencyLab(b *testing.B) *latencyLab {
	b.Helper()
	cluster := devclustertest.Start(b)
	l := &latencyLab{namespace: cluster.Namespace(b), arrivals: make(chan time.Time, 1)}
	dir := b.TempDir() // of a benchmark: no character that bash would see
	l.openPipe(b, filepath.Join(dir, "pipe"))
	l.script = filepath.Join(dir, "modules", "010-watch", "hooks", "hook.sh")
	content := fmt.Sprintf(stopwatch, l.namespace, filepath.Join(dir, "pipe"))
	writeFiles(b, map[string]string{l.script: content, filepath.Join(dir, "modules", "values.yaml"): "watchEnabled: true\n", filepath.Join(dir, "global-hooks", "README.md"): ""})
	var err error
	if l.client, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		b.Fatal(err)
	}
	if l.watch, err = l.client.CoreV1().ConfigMaps(l.namespace).Watch(b.Context(), metav1.ListOptions{LabelSelector: "app=watched"}); err != nil {
		b.Fatal(err)
	}
	go func() {
		for range l.watch.ResultChan() {
			l.arrivals <- time.Now()
		}
	}()
	startOperator(b, cluster.Kubeconfig(), dir)
	return l
}

// writeFiles writes executable files by their paths.
func writeFiles(b testing.TB, files map[string]string) {
	b.Helper()
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o755); err != nil {
			b.Fatal(err)
		}
	}
}

func startOperator(b *testing.B, kubeconfig, dir string) {
	b.Helper()
	log := slog.New(slog.DiscardHandler)
	client, err := kube.Connect(kube.Options{Kubeconfig: kubeconfig, Log: log})
	if err != nil {
		b.Fatal(err)
	}
	runner, err := hooks.NewRunner(hooks.Options{TmpDir: filepath.Join(dir, "tmp"), Log: log})
	if err != nil {
		b.Fatal(err)
	}
	memory := scenario.NewCluster(scenario.DefaultVersion, log)
	releases, err := testkit.NewReleases(memory, testkit.NewTrace())
	if err != nil {
		b.Fatal(err)
	}
	operator := actors.New(actors.World{
		Services: actors.Services{
			Log: log, Hooks: runner, Releases: releases, Objects: client, WriteContext: b.Context(),
			Dirs: addons.Dirs{Modules: []string{filepath.Join(dir, "modules")}, Global: filepath.Join(dir, "global-hooks"), UnnumberedOrder: 1},
		},
		ConfigMap: memory.ConfigMap,
		Watch: func(ctx context.Context, spec kube.Spec, notify func(kube.Change), synced func()) (actors.Watch, error) {
			return client.Watch(ctx, spec, notify, synced)
		},
	})
	untilReady(b, operator)
}

// untilReady starts an operator, waits for its first converge, and stops it with the benchmark.
func untilReady(b testing.TB, operator *actors.Operator) {
	b.Helper()
	if err := operator.Start(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := operator.Stop(context.Background()); err != nil {
			b.Error(err)
		}
	})
	deadline := time.Now().Add(time.Minute)
	for !operator.Converge().Ready {
		if time.Now().After(deadline) {
			b.Fatal("the operator does not get ready")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// openPipe opens it for writing, too, so that it stays open between hooks.
func (l *latencyLab) openPipe(b *testing.B, path string) {
	b.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		b.Fatal(err)
	}
	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = pipe.Close() }) // not read any more
	l.times = bufio.NewScanner(pipe)
}

func (l *latencyLab) create(b *testing.B, name string) {
	b.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "watched"}}, Data: map[string]string{"k": name}}
	if _, err := l.client.CoreV1().ConfigMaps(l.namespace).Create(b.Context(), cm, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
}

func (l *latencyLab) seen(b *testing.B) time.Time {
	b.Helper()
	select {
	case at := <-l.arrivals:
		return at
	case <-time.After(time.Minute):
		b.Fatal("the bare watch saw nothing")
		return time.Time{}
	}
}

// started is the time that the next hook has told.
func (l *latencyLab) started(b *testing.B) time.Time {
	b.Helper()
	if !l.times.Scan() {
		b.Fatal(l.times.Err())
	}
	micros, err := strconv.ParseInt(strings.ReplaceAll(l.times.Text(), ".", ""), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.UnixMicro(micros)
}

// bareStart runs the script with nothing around it.
func (l *latencyLab) bareStart(b *testing.B) time.Duration {
	b.Helper()
	before := time.Now()
	if err := exec.Command(l.script).Run(); err != nil {
		b.Fatal(err)
	}
	return l.started(b).Sub(before)
}
