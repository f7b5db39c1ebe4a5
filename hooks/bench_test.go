package hooks

import (
	"log/slog"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// BenchmarkRunAgainstBareExec measures a trivial hook, and the same script with nothing around it, in turns, so that
// the ratio, which is what the protocol costs, does not depend on what else the machine does.
func BenchmarkRunAgainstBareExec(b *testing.B) {
	runner, _ := newRunner(b, Options{})
	run := Run{Hook: script(b, `:`), WorkingDir: "/", Contexts: []Context{{Binding: "onStartup"}}, Values: benchmarkValues()}
	var whole, bare time.Duration
	for b.Loop() {
		started := time.Now()
		must(b, second(runner.Run(b.Context(), run)))
		whole += time.Since(started)
		started = time.Now()
		must(b, exec.Command(run.Hook.Path).Run())
		bare += time.Since(started)
	}
	b.ReportMetric(float64(whole.Nanoseconds())/float64(b.N), "run-ns/op")
	b.ReportMetric(float64(whole)/float64(bare), "run/exec")
}

func BenchmarkParseConfig(b *testing.B) {
	for b.Loop() {
		must(b, second(ParseConfig(Module, []byte(everyField))))
	}
}

func BenchmarkFilter(b *testing.B) {
	filter, err := CompileFilter(`{name: .metadata.name, labels: .metadata.labels}`)
	must(b, err)
	given := object()
	b.ReportAllocs()
	for b.Loop() {
		must(b, second(filter.Apply(given)))
	}
}

// BenchmarkContext encodes a snapshot of a thousand objects of 2 KB.
func BenchmarkContext(b *testing.B) {
	object := Object{Object: raw(`{"text": "` + strings.Repeat("x", 2000) + `"}`), FilterResult: raw(`"x"`)}
	objects := make([]Object, 1000)
	for i := range objects {
		objects[i] = object
	}
	contexts := []Context{{Binding: "beforeHelm", Snapshots: map[string][]Object{"pods": objects}}}
	b.ReportAllocs()
	for b.Loop() {
		must(b, second(encodeContexts(contexts)))
	}
}

// BenchmarkOutput forwards a megabyte of short lines.
func BenchmarkOutput(b *testing.B) {
	runner := &Runner{options: Options{Log: slog.New(slog.DiscardHandler)}}
	text := []byte(strings.Repeat("a line of the length that lines of logs have, more or less\n", 1<<20/60))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		stream := runner.output(nil, "hook", "stdout")
		for chunk := range slices.Chunk(text, 32<<10) {
			must(b, second(stream.Write(chunk)))
		}
	}
}

// benchmarkValues are about 20 KB when written.
func benchmarkValues() map[string]any {
	list := make([]any, 200)
	for i := range list {
		list[i] = map[string]any{"name": "item", "replicas": int64(i), "text": strings.Repeat("x", 60)}
	}
	return map[string]any{"global": map[string]any{}, "module": map[string]any{"list": list}}
}
