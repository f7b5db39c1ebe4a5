package charts

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"text/template/parse"
)

// Check reports whether the chart of a module can be read: its files and dependencies, and the
// syntax of its own templates, with the functions that they call. Values are not needed for that,
// so it can refuse what is on disk before it is in force (P8). Templates of subcharts, which the
// values may disable, are not checked. A module without a chart has nothing to check. The error
// names each file.
func Check(m Module) error {
	if !Exists(m.Dir) {
		return nil
	}
	read, err := readOnce(m)
	if err != nil {
		return err
	}
	var errs []error
	where := m.Where()
	for _, t := range read.chart.Templates {
		tree := parse.New(filepath.Join(where, t.Name))
		tree.Mode = parse.SkipFuncCheck // Helm's functions are not exported: a name that is none of them fails the run
		if _, err := tree.Parse(string(t.Data), "", "", map[string]*parse.Tree{}); err != nil {
			errs = append(errs, fmt.Errorf("template %s", strings.TrimPrefix(err.Error(), "template: ")))
		}
	}
	return errors.Join(errs...)
}
