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
func (c *Client) Record(ctx context.Context, name string) (Record, error) {
	h := c.root
	op := &operation{ctx: ctx, home: h, release: name, log: h.options.Log, transport: &boundTransport{ctx: ctx, next: h.transport}}
	state, err := h.records.reread(ctx, name)
	if err != nil {
		return Record{}, &Error{Kind: readKind(ctx, err), Release: name, Err: err}
	}
	last, ok := state.Last()
	if !ok {
		return Record{}, problem(Invalid, name, "there is no such release in namespace %s, in %s", h.options.Namespace, h.options.Driver.Resource().Resource)
	}
	s := op.store(state)
	r := Record{Release: name, Namespace: h.options.Namespace, Revision: last.Version, Status: string(last.Status)}
	if r.Ours, err = s.ours(); err != nil {
		return Record{}, classify(ctx, name, op, err)
	}
	if err := r.read(s, last); err != nil {
		return Record{}, classify(ctx, name, op, err)
	}
	return r, nil
}

// read sets the fields from the body of the record. Values are taken from its JSON text, where large
// numbers stay as they were written: Helm's type would turn them into floats. So the body is
// fetched a second time; both have the same resourceVersion.
func (r *Record) read(s *store, last Revision) error {
	rel, err := s.body(last)
	if err != nil {
		return err
	}
	object, err := s.fetch(last)
	if err != nil {
		return err
	}
	raw, err := unpackRecord(object.Data[recordKey])
	if err != nil {
		return &corruptedError{secret: last.secret, err: err}
	}
	var texts struct {
		Config json.RawMessage `json:"config"`
		Chart  struct {
			Values json.RawMessage `json:"values"`
		} `json:"chart"`
	}
	if err := json.Unmarshal(raw, &texts); err != nil {
		return &corruptedError{secret: last.secret, err: err}
	}
	if rel.Chart.Metadata == nil {
		return &corruptedError{secret: last.secret, err: errors.New("the metadata of the chart is missing")}
	}
	r.Chart, r.Version = rel.Chart.Metadata.Name, rel.Chart.Metadata.Version
	r.Values = orEmpty(texts.Config)
	r.Absent = absentFrom(rel)
	r.empty = len(rel.Chart.Templates) == 0
	r.files, err = filesOf(rel.Chart, texts.Chart.Values)
	return err
}

// orEmpty is a map in JSON, also where there is none.
func orEmpty(text json.RawMessage) json.RawMessage {
	if len(text) == 0 || string(text) == "null" {
		return json.RawMessage("{}")
	}
	return text
}

// absentFrom lists the subcharts of a release. Chart.yaml declares them; a subchart in charts/ that
// is not declared shows only in the sources of the manifest.
func absentFrom(rel *release.Release) (absent []string) {
	for _, d := range rel.Chart.Metadata.Dependencies {
		if d != nil {
			absent = append(absent, strings.TrimSpace(d.Name+" "+d.Version))
		}
	}
	manifests := rel.Manifest
	for _, h := range rel.Hooks {
		manifests += "\n# Source: " + h.Path
	}
	for _, found := range regexp.MustCompile(`(?m)^# Source: [^/\n]+/charts/([^/\n]+)/`).FindAllStringSubmatch(manifests, -1) {
		if name := found[1]; !slices.ContainsFunc(absent, func(known string) bool { return known == name || strings.HasPrefix(known, name+" ") }) {
			absent = append(absent, name)
		}
	}
	return absent
}

// filesOf are the files of a chart as a record has it: those that were installed, without comments
// in Chart.yaml and values.yaml, without subcharts, and without what .helmignore names. Chart.lock
// is left out, because it is only about subcharts.
func filesOf(c *chart.Chart, values json.RawMessage) (files []*chart.File, err error) {
	metadata, err := yaml.Marshal(c.Metadata)
	if err != nil {
		return nil, err
	}
	defaults, err := yaml.JSONToYAML(orEmpty(values))
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
