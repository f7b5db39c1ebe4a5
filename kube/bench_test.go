package kube

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/testkit/devclustertest"
)

// BenchmarkWatch2000Secrets reports what the cache keeps of 2,000 Secrets of
// 20 KiB when only their names are asked for, and the highest heap on the way.
func BenchmarkWatch2000Secrets(b *testing.B) {
	world := newWorld(b, devclustertest.Start(b))
	const secrets = 2000
	ns := world.fill(b, secrets, 20<<10)
	spec := Spec{
		APIVersion: "v1", Kind: "Secret", Namespaces: []string{ns},
		Filter: func(object map[string]any) (json.RawMessage, error) {
			return json.Marshal(object["metadata"].(map[string]any)["name"])
		},
	}
	watcher := NewWatcher(world.client, nil)
	listenSynced(b, watcher, Spec{APIVersion: "v1", Kind: "Secret", Namespaces: []string{"none"}}).watch.Stop() // warm
	for b.Loop() {
		before := heap()
		peak := watchPeak(b.Context())
		l := listenSynced(b, watcher, spec)
		highest := peak()
		kept := heap() - before
		if objects, _ := l.watch.Snapshot(); len(objects) != secrets {
			b.Fatalf("%d objects, want %d", len(objects), secrets)
		}
		b.ReportMetric(float64(kept)/secrets, "B/object")
		b.ReportMetric(float64(highest-before)/(1<<20), "MiB-peak")
		l.watch.Stop()
		eventually(b, "the reflector is stopped", func() bool { return watcher.reflectors() == 0 })
	}
}

// fill makes a namespace with incompressible Secrets.
func (w *world) fill(b *testing.B, n, size int) string {
	ns := w.Namespace(b)
	api := w.admin.CoreV1().Secrets(ns)
	var makers sync.WaitGroup
	for maker := range 8 {
		makers.Go(func() {
			data := make([]byte, size)
			_, _ = rand.Read(data)
			for i := maker; i < n; i += 8 {
				secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("secret-%04d", i)}, Data: map[string][]byte{"data": data}}
				if _, err := api.Create(b.Context(), secret, metav1.CreateOptions{}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	makers.Wait()
	return ns
}

// heap is what is in use after the garbage is gone.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// watchPeak looks at the heap until the returned function is called, which
// returns the highest value seen.
func watchPeak(ctx context.Context) func() int64 {
	ctx, stop := context.WithCancel(ctx)
	result := make(chan int64)
	go func() {
		var highest int64
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for ctx.Err() == nil {
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			highest = max(highest, int64(stats.HeapAlloc))
			<-ticker.C
		}
		result <- highest
	}()
	return func() int64 { stop(); return <-result }
}

// BenchmarkEvent is the way of one event through a source into a Watch.
func BenchmarkEvent(b *testing.B) {
	bench := newSourceBench(b)
	l := bench.watch(Spec{Filter: valueOf})
	bench.list("1")
	await(b, "synced", l.synced)
	versions := []string{"x", "y"}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		must(b, bench.source.Update(object("a", "2", versions[i%2])))
	}
}
