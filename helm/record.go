package helm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"sigs.k8s.io/yaml"

	"addon-operator/helm/charts"
)

// Record is the content of the newest record of a release. The command bring makes a module of it.
type Record struct {
	Release, Namespace string
	Revision           int
	Status             string // as Helm names it: deployed, failed, pending-install, …
	// Ours: an operator has installed the release, or taken it over.
	Ours bool
	// Chart and Version are those of Chart.yaml.
	Chart, Version string
	// Values are those that the user gave to Helm, in JSON: a map.
	Values []byte
	// Absent are the subcharts of the chart, "name version". Helm puts no subchart into a record.
	Absent []string

	files []*chart.File
	empty bool // it has no templates
}

// Record reads the newest record of a release in the namespace of the Client. Errors are of type
// *Error.
func (c *Client) Record(ctx context.Context, name string) (r Record, err error) {
	h := c.root
	op := &operation{ctx: ctx, home: h, release: name, log: h.options.Log}
	defer func() { err = classify(ctx, name, nil, err) }()
	state, err := h.records.reread(ctx, name)
	if err != nil {
		return r, err
	}
	last, ok := state.Last()
	if !ok {
		return r, problem(Invalid, name, "there is no such release in namespace %s, in %s", h.options.Namespace, h.options.Driver.Resource().Resource)
	}
	s := op.store(state)
	r = Record{Release: name, Namespace: h.options.Namespace, Revision: last.Version, Status: string(last.Status)}
	if r.Ours, err = s.ours(); err != nil {
		return r, err
	}
	rel, err := s.body(last)
	if err == nil && rel.Chart.Metadata == nil {
		err = &corruptedError{secret: last.secret, err: errors.New("the metadata of the chart is missing")}
	}
	if err != nil {
		return r, err
	}
	r.Chart, r.Version = rel.Chart.Metadata.Name, rel.Chart.Metadata.Version
	for _, d := range rel.Chart.Metadata.Dependencies {
		if d != nil {
			r.Absent = append(r.Absent, strings.TrimSpace(d.Name+" "+d.Version))
		}
	}
	for _, found := range fromSubchart.FindAllStringSubmatch(rel.Manifest, -1) {
		if !slices.ContainsFunc(r.Absent, func(known string) bool { return strings.HasPrefix(known+" ", found[1]+" ") }) {
			r.Absent = append(r.Absent, found[1])
		}
	}
	r.empty = len(rel.Chart.Templates) == 0
	var wrong error
	r.Values, err = json.Marshal(orEmpty(rel.Config))
	r.files, wrong = filesOf(rel.Chart)
	return r, errors.Join(err, wrong)
}

// fromSubchart is the line by which a manifest names a template of a subchart, declared in Chart.yaml or not.
var fromSubchart = regexp.MustCompile(`(?m)^# Source: [^/\n]+/charts/([^/\n]+)/`)

// orEmpty is a map, also where there is none.
func orEmpty(values map[string]any) map[string]any {
	if values == nil {
		return map[string]any{}
	}
	return values
}

// filesOf are the files of a chart as a record has it: those that were installed, without comments
// in Chart.yaml and values.yaml, without subcharts, and without what .helmignore names. Chart.lock
// is left out, because it is only about subcharts.
func filesOf(c *chart.Chart) (files []*chart.File, err error) {
	metadata, err := yaml.Marshal(c.Metadata)
	if err != nil {
		return nil, err
	}
	defaults, err := yaml.Marshal(orEmpty(c.Values))
	if err != nil {
		return nil, err
	}
	files = []*chart.File{{Name: "Chart.yaml", Data: metadata}, {Name: "values.yaml", Data: defaults}}
	if len(c.Schema) > 0 {
		files = append(files, &chart.File{Name: "values.schema.json", Data: c.Schema})
	}
	for _, f := range slices.Concat(c.Templates, c.Files) {
		if f != nil && f.Data != nil && f.Name != "requirements.lock" { // without data it is a name (emptied)
			files = append(files, f)
		}
	}
	return files, nil
}

// WriteChart writes the chart of the record into a directory, which it creates.
func (r Record) WriteChart(dir string) error {
	if r.empty {
		return fmt.Errorf("the record of release %s contains no templates of its chart", r.Release)
	}
	return charts.Write(dir, r.files)
}

// wasDeployed reports whether a revision was deployed at any time since the release was last
// uninstalled. If not, only failed or interrupted installations are there, and the release may be
// installed from the beginning (H9).
func (s State) wasDeployed() bool {
	for _, r := range slices.Backward(s.Revisions) {
		switch r.Status {
		case release.StatusUninstalled:
			return false
		case release.StatusFailed, release.StatusPendingInstall:
		default:
			return true
		}
	}
	return false
}
