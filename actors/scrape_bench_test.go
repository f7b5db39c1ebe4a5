package actors_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"addon-operator/actors"
	"addon-operator/actors/scenario"

	"addon-operator/addons"
	"addon-operator/testkit"
)

// BenchmarkScrape gathers and writes the page of metrics of an operator with 200 modules of
// two hooks, all of which have run.
func BenchmarkScrape(b *testing.B) {
	operator, _ := manyModules(b, 200, 2)
	b.ReportAllocs()
	series, bytes := 0, 0
	for b.Loop() {
		series, bytes = scrape(b, operator)
	}
	b.ReportMetric(float64(series), "series")
	b.ReportMetric(float64(bytes), "page-bytes")
}

// A page of metrics stays small with many modules: 2 MB with 1,000 that have no hooks. I2
func TestScrapeIsSmall(t *testing.T) {
	const few, many = 10, 30
	perModule := func(hooks int) int {
		before, _ := manyModules(t, few, hooks)
		after, _ := manyModules(t, many, hooks)
		_, small := scrape(t, before)
		_, large := scrape(t, after)
		return (large - small) / (many - few)
	}
	without := perModule(0)
	if without > 1500 {
		t.Errorf("each module adds %d bytes", without)
	}
	if each := perModule(1) - without; each > 2500 {
		t.Errorf("each hook adds %d bytes", each)
	}
}

// scrape writes the page of metrics.
func scrape(t testing.TB, operator *actors.Operator) (series, bytes int) {
	t.Helper()
	gatherers := prometheus.Gatherers{operator.Metrics().Registry, operator.Metrics().HookRegistry}
	families, err := gatherers.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		series += len(f.GetMetric())
	}
	page := httptest.NewRecorder()
	promhttp.HandlerFor(gatherers, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	return series, page.Body.Len()
}

// manyModules starts an operator whose modules have scripted hooks, each for beforeHelm
// and afterHelm. Nothing but the operator itself costs time: hooks, Helm and the cluster are
// in memory.
func manyModules(b testing.TB, n, hooks int) (*actors.Operator, *scenario.Cluster) {
	b.Helper()
	dir, enabled := b.TempDir(), ""
	modules := filepath.Join(dir, "modules")
	files := map[string]string{filepath.Join(dir, "global-hooks", "README.md"): ""}
	for i := range n {
		enabled += fmt.Sprintf("m%dEnabled: true\n", i)
		module := filepath.Join(modules, fmt.Sprint("m", i))
		for _, hook := range []string{"a.sh", "b.sh"}[:hooks] {
			files[filepath.Join(module, "hooks", hook)] = "#!testkit\nconfig: {configVersion: v1, beforeHelm: 1, afterHelm: 2}\n"
		}
		files[filepath.Join(module, "templates", "x.yaml")] = ""
	}
	files[filepath.Join(modules, "values.yaml")] = enabled
	writeFiles(b, files)
	log, trace := slog.New(slog.DiscardHandler), testkit.NewTrace()
	memory := scenario.NewCluster(scenario.DefaultVersion, log)
	releases, err := testkit.NewReleases(memory, trace)
	if err != nil {
		b.Fatal(err)
	}
	operator := actors.New(actors.World{
		Services: actors.Services{
			Log: log, Hooks: testkit.NewHooks(trace), Releases: releases, Objects: memory.Client, WriteContext: b.Context(),
			Dirs: addons.Dirs{Modules: []string{modules}, Global: filepath.Join(dir, "global-hooks"), UnnumberedOrder: 1},
		},
		ConfigMap: memory.ConfigMap,
	})
	untilReady(b, operator)
	return operator, memory
}
