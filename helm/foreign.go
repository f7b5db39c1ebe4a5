package helm

import (
	"maps"
	"slices"

	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/helm/charts"
)

// What charts of others need that were not written for an operator.

// load loads the chart of a module. Where the module's section is that of a subchart, which somebody has
// written for Helm, the numbers in it become those that Helm reads from a file: templates ask for their types.
func (c *Client) load(m *Module) (*charts.Chart, error) {
	loaded, err := c.charts.Load(m.chart())
	if err != nil {
		return nil, err
	}
	if section, ok := m.Values[m.Key]; ok && loaded.HasSubchart(m.Key) {
		m.Values = maps.Clone(m.Values)
		m.Values[m.Key] = numbersOfHelm(section)
	}
	return loaded, nil
}

// numbersOfHelm copies values, with integers as float64. Those that a template would print as 1e+06 stay
// integers (D4).
func numbersOfHelm(value any) any {
	const exponent = 1_000_000
	switch v := value.(type) {
	case int64:
		if -exponent < v && v < exponent {
			return float64(v)
		}
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = numbersOfHelm(element)
		}
		return list
	case map[string]any:
		fields := make(map[string]any, len(v))
		for key, field := range v {
			fields[key] = numbersOfHelm(field)
		}
		return fields
	}
	return value
}

// MarkLabel is on every object of every release, with the name of the module. It is no part of the
// checksum: objects that an older operator has installed get it with their next revision, and not all at once.
const MarkLabel = "addon-operator/module"

// mark sets MarkLabel, or takes it out of what a chart says. Objects to compare with do not have it, or
// it would not be written.
func (op *operation) mark(o *unstructured.Unstructured, set bool) {
	all := o.GetLabels()
	if _, there := all[MarkLabel]; !there && !set {
		return
	}
	if all == nil {
		all = map[string]string{}
	}
	delete(all, MarkLabel)
	if set {
		all[MarkLabel] = op.release
	}
	o.SetLabels(all)
}

// isTest reports whether a hook is one for "helm test" only: it never runs here, and often has a
// random name.
func isTest(h *release.Hook) bool {
	return !slices.ContainsFunc(h.Events, func(e release.HookEvent) bool { return e != release.HookTest })
}
