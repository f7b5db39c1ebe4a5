package charts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"helm.sh/helm/v3/pkg/chartutil"
	"sigs.k8s.io/yaml"

	"addon-operator/helm/manifest"
)

// inner is the directory of a module that holds a chart as its author has published it.
//
// A module has its chart in one of two forms. The chart is the module's directory, and gets the
// sections of the module and of global. Or it is the directory chart/ in it, and gets the content
// of the module's section as its own values (A20). Only this file decides which (Root,
// Chart.Values), for all code that loads, renders, checks or lists a chart.
const inner = "chart"

// globalKey is the section that all modules and subcharts share, here as in Helm.
const globalKey = "global"

// Root is the directory of the chart of the module in dir, with Chart.yaml, templates, crds and
// charts. It need not be there: see Exists. A directory chart in a chart that is the module is
// chart/ only when it holds a Chart.yaml.
func Root(dir string) string {
	root := filepath.Join(dir, inner)
	if info, err := os.Stat(root); err != nil || !info.IsDir() || !hasMetadata(root) && isChart(dir) {
		return dir
	}
	return root
}

func hasMetadata(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "Chart.yaml"))
	return err == nil && !info.IsDir()
}

// isChart reports whether a directory is a chart itself (A17).
func isChart(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "templates"))
	return hasMetadata(dir) || err == nil && info.IsDir()
}

// isInner reports whether the chart of the module is in chart/.
func (m Module) isInner() bool { return Root(m.Dir) != m.Dir }

// CRDs is the directory with the definitions of the chart of the module in dir, which Helm installs
// before the chart. Those of subcharts are elsewhere: see Chart.SubchartCRDs.
func CRDs(dir string) string { return filepath.Join(Root(dir), "crds") }

// Published reports whether the chart in root is one in chart/.
func Published(root string) bool { return Root(filepath.Dir(root)) == root }

// Ignored returns a function that reports whether a file of the chart in root, by its path below it, does not
// belong to the chart: the .helmignore of a chart in chart/ names it, so its author has not packed it. In the other
// form no file is ignored: a module that is a chart may hide its crds/ from Helm by .helmignore.
func Ignored(root string) (func(file string) bool, error) {
	if !Published(root) {
		return func(string) bool { return false }, nil
	}
	rules, err := ignoreRules(root, root)
	if err != nil {
		return nil, err
	}
	return func(file string) bool {
		for name := file; name != "."; name = path.Dir(name) {
			info, err := os.Stat(filepath.Join(root, filepath.FromSlash(name)))
			if err == nil && rules.Ignore(name, info) {
				return true
			}
		}
		return false
	}, nil
}

// Values are the part of the merged values of a module that Helm receives; the merged values are not changed. The section of
// a module whose chart is in chart/ becomes the top level. A key global in the section overrides the values that
// all modules share. A section that is a list is an error: a chart has a map of values.
//
// All numbers are float64, as those that Helm reads from a file (H2): templates of charts are written for that,
// because they print numbers with a verb, look at their kind, and compare them with those of the chart.
func (c *Chart) Values(merged map[string]any) (map[string]any, error) {
	if !c.inner {
		return floatsIn(merged)
	}
	section, there := merged[c.module.Key]
	own, isMap := section.(map[string]any)
	if there && section != nil && !isMap {
		return nil, fmt.Errorf("the values of the chart in %s are a map; the section %s is a list", c.module.Where(), c.module.Key)
	}
	top := map[string]any{}
	if shared, ok := merged[globalKey].(map[string]any); ok && len(shared) > 0 {
		if _, isMap := own[globalKey].(map[string]any); isMap || own[globalKey] == nil {
			top[globalKey] = shared // else a chart that has no global sees none, as with Helm
		} // else Helm would log all of it
	}
	own, err := floatsIn(own) // a copy
	if err != nil {
		return nil, err
	}
	return floatsIn(chartutil.MergeTables(own, top))
}

// Validate checks the merged values of a module against values.schema.json of the chart, and of the subcharts that the values
// enable, as Helm does before it renders (H22).
func (c *Chart) Validate(merged map[string]any) error {
	top, err := c.Values(merged)
	if err != nil {
		return err
	}
	use := c.Copy()
	if err := chartutil.ProcessDependenciesWithMerge(use, top); err != nil {
		return fmt.Errorf("dependencies of the chart: %w", err)
	}
	values, err := chartutil.CoalesceValues(use, top)
	if err != nil {
		return fmt.Errorf("values of the chart: %w", err)
	}
	return chartutil.ValidateAgainstSchema(use, values)
}

// floatsIn copies a map of values, with all its numbers as float64, as encoding/json reads them. Digits beyond 53 bits
// are lost, as in Helm.
func floatsIn(values map[string]any) (copied map[string]any, err error) {
	data, err := json.Marshal(values)
	if err == nil {
		err = json.Unmarshal(data, &copied)
	}
	return copied, err
}

// globalNextTo reads the section global in the values.yaml of a module whose chart is in chart/. In
// the other form the file belongs to the chart, and Helm reads it.
func globalNextTo(m Module) (global map[string]any, err error) {
	file := filepath.Join(m.Dir, "values.yaml")
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err == nil && !info.Mode().IsRegular():
		return nil, irregular(m.Shows(file))
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, m.unread("values file of", err)
	}
	err = manifest.Check(string(data))
	var content struct {
		Global map[string]any `json:"global"`
	}
	if err == nil {
		err = yaml.Unmarshal(data, &content)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Shows(file), err)
	}
	return content.Global, nil
}
