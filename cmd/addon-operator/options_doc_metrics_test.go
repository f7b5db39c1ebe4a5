package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"addon-operator/actors/metrics"
	"addon-operator/testkit/golden"
)

// families are the metrics of a new operator by name.
func families(t *testing.T) map[string]metrics.Family {
	t.Helper()
	m := metrics.New(metrics.DefaultPrefix)
	m.Watch(metrics.Sources{})
	all := map[string]metrics.Family{}
	for _, f := range m.Families() {
		all[f.Name] = f
	}
	if len(all) == 0 {
		t.Fatal("no metrics")
	}
	return all
}

// docs/metrics.md lists all metrics, from the registry (I2).
func TestMetricsAreDocumented(t *testing.T) {
	all := families(t)
	var table strings.Builder
	table.WriteString("| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, f := range sortedFamilies(all) {
		labels := make([]string, len(f.Labels))
		for i, label := range f.Labels {
			labels[i] = "`" + label + "`"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", f.Name, f.Type, strings.Join(labels, ", "), strings.ReplaceAll(f.Help, "|", `\|`))
	}
	const path = "docs/metrics.md"
	document, err := os.ReadFile(repository + path)
	if err != nil {
		t.Fatal(err)
	}
	golden.File(t, repository+path, between(t, string(document), "<!-- metrics -->", "<!-- end of metrics -->", table.String()))
}

func sortedFamilies(all map[string]metrics.Family) []metrics.Family {
	var list []metrics.Family
	for _, f := range all {
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b metrics.Family) int { return strings.Compare(a.Name, b.Name) })
	return list
}
