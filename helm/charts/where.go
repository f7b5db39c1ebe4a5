package charts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/ignore"
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

// maxDefinitions bounds a file of definitions, in bytes: it is read as a whole (M1).
const maxDefinitions = 16 << 20

// Definitions reads the files in CRDs that may hold definitions, in order (M1); a missing directory has none. Hidden
// entries are left out: a directory that is mounted from a ConfigMap holds each file twice, once below "..data". So is
// what .helmignore of a chart in chart/ names: its author has not packed it. In the other form no file is ignored: a
// module that is a chart may hide its crds/ from Helm by .helmignore.
func Definitions(dir string) (files []File, err error) {
	root, rules := Root(dir), ignore.Empty()
	if root != dir {
		if rules, err = ignoreRules(root, root); err != nil {
			return nil, err
		}
	}
	if info, err := os.Stat(CRDs(dir)); errors.Is(err, fs.ErrNotExist) || err == nil && rules.Ignore("crds", info) {
		return nil, nil
	}
	err = walk(root, "crds", func(name string, info fs.FileInfo) error {
		switch {
		case strings.HasPrefix(path.Base(name), ".") || rules.Ignore(name, info):
			return skip(info)
		case info.IsDir() || !definition.MatchString(name):
			return nil
		case !info.Mode().IsRegular():
			return irregular(name)
		case info.Size() > maxDefinitions:
			return fmt.Errorf("%s has %d bytes, more than %d MiB; split it into several files", name, info.Size(), maxDefinitions>>20)
		}
		data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		files = append(files, File{name, data})
		return err
	})
	return files, err
}

// Values are the part of the merged values of a module that Helm receives; the merged values are not changed. The
// section of a module whose chart is in chart/ becomes the top level. A key global in the section overrides the
// values that all modules share. A section that is a list is an error: a chart has a map of values.
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

// Validate checks the merged values of a module against values.schema.json of the chart, and of the subcharts that
// the values enable, as Helm does before it renders (H22).
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
