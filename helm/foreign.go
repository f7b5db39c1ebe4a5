package helm

import (
	"slices"

	"helm.sh/helm/v3/pkg/release"

	"addon-operator/helm/charts"
)

// load loads the chart of a module, and replaces the module's values by those that Helm gets, which
// differ for a chart of others in chart/ (A20).
func (r *renderer) load(m *Module) (*charts.Chart, error) {
	loaded, err := r.home.homes.charts.Load(m.chart())
	if err != nil {
		return nil, err
	}
	if m.Values, err = loaded.Values(m.Values); m.Values == nil {
		m.Values = map[string]any{} // Helm writes into it
	}
	return loaded, err
}

// MarkLabel is on every object of every release, with the name of the module (H10). It is no part
// of the checksum: objects that an older operator has installed get it with their next revision,
// and not all at once.
const MarkLabel = "addon-operator/module"

// isTest reports whether a hook is one for "helm test" only: it never runs here, and often has a
// random name.
func isTest(h *release.Hook) bool {
	return !slices.ContainsFunc(h.Events, func(e release.HookEvent) bool { return e != release.HookTest })
}
