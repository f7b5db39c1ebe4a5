package helm

import (
	"slices"

	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

// mark sets MarkLabel, or removes the one that a chart sets. Objects of older manifests, with which
// Helm compares, do not have it: otherwise it would seem to be unchanged, and not be written to
// objects that lack it.
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
