package addons

import (
	"fmt"
	"os"
	"path/filepath"

	"addon-operator/values"
)

// Write writes module.yaml into the directory of a module, or replaces it. A field that says nothing is left out,
// and a file that would say nothing is not written.
func (f ModuleFile) Write(dir string) error {
	tree, chart := map[string]any{}, map[string]any{}
	set := func(in map[string]any, key, text string) {
		if text != "" {
			in[key] = text
		}
	}
	set(tree, "namespace", f.Namespace)
	set(chart, "repository", f.Chart.Repository)
	set(chart, "name", f.Chart.Name)
	set(chart, "version", f.Chart.Version)
	set(chart, "digest", f.Chart.Digest)
	if len(chart) > 0 {
		tree["chart"] = chart
	}
	if len(tree) == 0 {
		return nil
	}
	text, err := values.YAML(tree)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, moduleFile)
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
