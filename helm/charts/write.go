package charts

import (
	"fmt"
	"os"

	"golang.org/x/tools/txtar"
	"helm.sh/helm/v3/pkg/chart"
)

// Write writes the files of a chart, unchanged, into a directory, which it creates. Their names may be
// of a stranger: none leads out of the directory. One that exists is an error: a second file of the same
// name, or one of another chart.
func Write(dir string, files []*chart.File) error {
	all := &txtar.Archive{}
	for _, f := range files {
		all.Files = append(all.Files, txtar.File{Name: f.Name, Data: f.Data})
	}
	tree, err := txtar.FS(all)
	if err == nil {
		err = os.CopyFS(dir, tree)
	}
	if err != nil {
		return fmt.Errorf("write the files of the chart: %w", err)
	}
	return nil
}
