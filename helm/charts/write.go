package charts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"helm.sh/helm/v3/pkg/chart"
)

// Write writes the files of a chart, unchanged, into a directory, which it creates. Their names may be
// of a stranger: none leads out of the directory.
func Write(dir string, files []*chart.File) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, f := range files {
		if err := writeIn(root, f); err != nil {
			return fmt.Errorf("write %s of the chart: %w", f.Name, err)
		}
	}
	return nil
}

// writeIn creates a file. One that exists is an error: a second file of the same name, or one of
// another chart.
func writeIn(root *os.Root, f *chart.File) error {
	if !fs.ValidPath(f.Name) {
		return errors.New("it is not a valid name of a file in a chart")
	}
	name := filepath.FromSlash(f.Name)
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	file, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(f.Data)
	return errors.Join(err, file.Close())
}
