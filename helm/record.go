package helm

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"sync"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"sigs.k8s.io/yaml"

	"addon-operator/helm/charts"
	"addon-operator/helm/manifest"
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

// What a record may unpack to. A secret holds 1 MiB, so an honest record is far
// below; a crafted one must not fill the memory. What is written keeps to it, too.
const (
	maxRecord = 32 << 20 // bytes of JSON
	maxValues = 500_000  // values in it: a short one takes twenty times its text
)

// encoder writes records. It keeps its compressors: a new one takes a megabyte, and longer than all
// the rest of a small record. It is safe for concurrent use.
type encoder struct{ packers sync.Pool }

// encode writes Helm's form of a record: base64 of gzip of JSON. The fastest
// level of gzip needs a tenth of the time Helm's own driver spends and makes
// records a fifth larger; templates and files, which would make up most of them,
// are not stored.
func (e *encoder) encode(rel *release.Release) ([]byte, error) {
	packer, ok := e.packers.Get().(*gzip.Writer)
	if !ok {
		var err error
		if packer, err = gzip.NewWriterLevel(io.Discard, gzip.BestSpeed); err != nil {
			return nil, err
		}
	}
	defer e.packers.Put(packer)
	raw, err := json.Marshal(rel)
	if err == nil {
		err = errors.Join(checkRecord(raw), checkManifests(rel))
	}
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	text := base64.NewEncoder(base64.StdEncoding, &buf)
	packer.Reset(text)
	_, err = packer.Write(append(raw, '\n'))
	err = errors.Join(err, packer.Close(), text.Close())
	return buf.Bytes(), err
}

// checkRecord refuses JSON that takes too much memory, before it is decoded (D39). It counts what
// begins or separates values outside of strings, in one pass and without a parser.
func checkRecord(raw []byte) error {
	if len(raw) > maxRecord {
		return fmt.Errorf("larger than %d MiB", maxRecord>>20)
	}
	values, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch char := raw[i]; {
		case char == '"':
			quoted = !quoted
		case char == '\\':
			i++ // the next one is no end of a text
		case !quoted && (char == ',' || char == '[' || char == '{'):
			values++
		}
	}
	if values > maxValues {
		return fmt.Errorf("more than %d values", maxValues)
	}
	return nil
}

// checkManifests refuses manifests that would take too much memory when they are parsed. A null
// among the hooks, which Helm never writes, would be a nil pointer in everything that follows.
func checkManifests(rel *release.Release) error {
	if err := manifest.Check(rel.Manifest); err != nil {
		return err
	}
	for _, h := range rel.Hooks {
		if h == nil {
			return errors.New("one of its hooks is empty")
		}
		if err := manifest.Check(h.Manifest); err != nil {
			return fmt.Errorf("hook %s: %w", h.Path, err)
		}
	}
	return nil
}

// decodeRelease reads a record; older ones may not be compressed.
func decodeRelease(data []byte) (*release.Release, error) {
	raw, err := base64.StdEncoding.AppendDecode(nil, data)
	if err != nil {
		return nil, fmt.Errorf("decode base64: %w", err)
	}
	if bytes.HasPrefix(raw, []byte{0x1f, 0x8b, 0x08}) {
		packed, err := gzip.NewReader(bytes.NewReader(raw))
		if err == nil { // one byte more than checkRecord accepts shows that it is too large
			raw, err = io.ReadAll(io.LimitReader(packed, maxRecord+1))
		}
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
	}
	if err := checkRecord(raw); err != nil {
		return nil, err
	}
	rel := &release.Release{}
	numbers := json.NewDecoder(bytes.NewReader(raw))
	numbers.UseNumber() // values keep their digits; Helm itself would read floats
	if err := numbers.Decode(rel); err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	if rel.Info == nil || rel.Chart == nil {
		return nil, errors.New("info or chart is missing")
	}
	return rel, checkManifests(rel)
}
