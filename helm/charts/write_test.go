package charts_test

import (
	"os"
	"path/filepath"
	"testing"

	"helm.sh/helm/v3/pkg/chart"

	"addon-operator/helm/charts"
)

func TestWriteStaysInItsDirectory(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"../escaped", "/escaped", "templates/../../escaped", "", "."} {
		if err := charts.Write(filepath.Join(dir, "chart"), []*chart.File{{Name: name, Data: []byte("x")}}); err == nil {
			t.Errorf("%q was written", name)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) > 0 {
		t.Errorf("written next to the chart: %v", entries)
	}
}
